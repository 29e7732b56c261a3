"""Positions in a log: sets of them, and how far one log is behind another; pure."""
