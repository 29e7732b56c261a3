"""Parses forms and addresses of pages into the types of the program."""
