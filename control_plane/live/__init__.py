"""What changes, as it changes: MongoDB's change stream, the feed of pages, the notifier of pods."""
