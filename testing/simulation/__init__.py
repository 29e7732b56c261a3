"""The fleet's real decisions and loops under a virtual clock: one thread, one seed, one history."""
