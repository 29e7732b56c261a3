"""Names, paths and folders from untrusted input."""
