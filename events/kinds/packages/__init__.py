"""Kinds that packages bring: loaded, and called within bounds, so that no error of theirs ends a program."""
