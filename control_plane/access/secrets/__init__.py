"""Secrets by name: encrypted, kept, and handed to the attempt that holds a run which names them."""
