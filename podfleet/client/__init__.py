"""A control plane as programs see it: typed calls over HTTP, answers as structs, refusals as exceptions."""
