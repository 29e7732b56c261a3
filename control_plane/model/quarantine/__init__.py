"""Which pods are in quarantine: their own failures, their slowness and their GPUs beside other pods, pure."""
