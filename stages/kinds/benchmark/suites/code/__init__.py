"""Code in answers: run in the sandbox, judged outside of the process that runs it."""
