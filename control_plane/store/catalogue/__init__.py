"""What people define by a name of their own: models and schedules."""
