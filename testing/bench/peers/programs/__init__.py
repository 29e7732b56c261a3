"""Programs that run in the environments of peers: they import the peer, and of ours only what lies here."""
