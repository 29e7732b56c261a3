"""What kinds of run contribute to reads: loops, parts of a run, what attempts are told, errors."""
