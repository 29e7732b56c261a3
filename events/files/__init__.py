"""Names, paths and folders that come from elsewhere."""
