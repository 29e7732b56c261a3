"""Backups: a store and its files as of one moment in a folder, and their way back."""
