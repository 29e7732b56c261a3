"""What people and programs are shown of runs and of the fleet."""
