"""What the control plane answers to workers."""
