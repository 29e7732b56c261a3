"""The parts that all routes share: bodies, answers, problems, and the OpenAPI document."""
