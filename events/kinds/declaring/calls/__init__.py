"""Calls of functions that a kind brings: bounded in time, and no error of theirs ends a program."""
