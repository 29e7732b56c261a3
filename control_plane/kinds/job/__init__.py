"""Jobs in the control plane: what the page of a run says of its program and its files."""
