"""Programs that nobody has looked at, started, watched and held on this machine."""
