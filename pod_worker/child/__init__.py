"""The pipeline's process: both sides of its pipes, and the server that it is forked from."""
