"""Races beyond their group: how their lanes are chosen and checked, what is told of them, their export."""
