"""The services of this pod that its operator lets people reset."""
