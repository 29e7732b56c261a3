"""What is measured, one module a bench."""
