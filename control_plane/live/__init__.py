"""Live changes: MongoDB's change stream, the change feed of pages, the notifier of pods."""
