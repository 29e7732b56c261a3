"""The steps of an experiment: set-up, search, validation, plots, paper and review."""
