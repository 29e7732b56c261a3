"""The commands on what can be run: the kinds of run, and the models that they may name."""
