"""Keeps a generated program from the answers: what it is given, and how its output is read."""
