"""The pages of races: the list, the form of a new one, and one race with its lanes."""
