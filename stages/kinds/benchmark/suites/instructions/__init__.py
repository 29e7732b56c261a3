"""Instructions that an answer can be checked against without a judge."""
