"""File trees of this machine: folders become trees, are pushed to a fleet, and are pulled from it."""
