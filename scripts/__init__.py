"""Commands for maintainers, one file each."""
