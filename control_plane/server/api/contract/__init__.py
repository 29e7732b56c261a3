"""What every route shares: bodies, answers, problems, and the OpenAPI document."""
