"""The pages that have more than a template, one module a noun."""
