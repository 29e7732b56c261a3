"""What pipelines reach the world outside through: programs, models, indexes."""
