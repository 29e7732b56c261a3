"""Routes of files: those that runs keep, and trees of files for runs."""
