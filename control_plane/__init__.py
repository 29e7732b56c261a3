"""The server: takes events in, keeps the documents, shows and steers the fleet."""
