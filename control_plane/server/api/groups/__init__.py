"""Groups of runs over HTTP, and races, which are groups of a plan of their own."""
