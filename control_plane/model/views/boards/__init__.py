"""Boards: fields that people choose, and tables of a headline number over runs."""
