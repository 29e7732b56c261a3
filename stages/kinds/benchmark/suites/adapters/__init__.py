"""One module for each form of data set: how its records become items."""
