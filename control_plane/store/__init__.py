"""Every query of the control plane, one named function each, one module per collection."""
