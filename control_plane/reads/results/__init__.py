"""Results of runs: pages of rows, files of them, and what two runs have in common."""
