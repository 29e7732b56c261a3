"""What the control plane adds for benchmarks."""
