"""The machine of the pod: what it has, how much of it is in use, and which models lie on it."""
