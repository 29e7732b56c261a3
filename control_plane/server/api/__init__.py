"""The HTTP interface, with one module for each resource."""
