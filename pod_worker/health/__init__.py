"""What a pod tests of itself, and which kinds of run it claims by that."""
