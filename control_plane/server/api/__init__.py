"""The HTTP interface, one module a noun."""
