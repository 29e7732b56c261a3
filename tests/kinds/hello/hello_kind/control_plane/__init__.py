"""How runs of the kind `hello` show."""
