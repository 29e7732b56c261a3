"""One program run in the sandbox and scored."""
