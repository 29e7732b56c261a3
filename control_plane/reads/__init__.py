"""What the API and the pages read of runs and of the fleet."""
