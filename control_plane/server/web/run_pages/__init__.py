"""The page of a run, a tab at a time: each has an address of its own, and reads only what it shows."""
