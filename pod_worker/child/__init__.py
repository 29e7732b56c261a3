"""The pipeline's process: both ends of its pipes, and the fork server that it comes from."""
