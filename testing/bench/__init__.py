"""Measurements: what podfleet does, beside the parts that it is made of and its peers, in one run."""
