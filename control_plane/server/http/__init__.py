"""Middleware of every request: bounds on head and body, headers, counts, the watchdog."""
