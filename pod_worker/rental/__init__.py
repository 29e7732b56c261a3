"""Pods that are rented: which one this is, and how its provider ends it."""
