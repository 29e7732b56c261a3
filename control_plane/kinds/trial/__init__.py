"""Trials in the control plane: tasks, which tune an engine by a study of trials."""
