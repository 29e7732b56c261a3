"""The forms that steer a run: orders, a change of what waits, a retry of what has ended."""
