"""Ideas for a hypothesis."""
