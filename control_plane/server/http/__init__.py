"""What every request passes through: bounds on its head and body, headers, counts, the watchdog."""
