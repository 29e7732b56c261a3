"""Slots: several workers of one pod, each with devices of its own."""
