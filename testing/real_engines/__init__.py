"""The contract of an engine as cases, which tests hold doubles to, and a pod its real engines."""
