"""The commands on pods: which there are, what is ordered of them, and a rolling update of them."""
