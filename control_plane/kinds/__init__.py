"""What each kind adds to the control plane: parts of a run, sections of its page, own pages and routes."""
