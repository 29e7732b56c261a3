"""The smoke test of a pod."""
