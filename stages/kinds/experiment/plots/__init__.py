"""The figures of an experiment, each with the rows that drew it."""
