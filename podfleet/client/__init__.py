"""Clients of a control plane: typed calls over HTTP, answers as structs, refusals as exceptions."""
