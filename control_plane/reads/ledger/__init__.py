"""What the time of pods was spent on: the ledger of their seconds, GPU-seconds and dollars."""
