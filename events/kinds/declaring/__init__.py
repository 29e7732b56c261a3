"""What declarations of kinds are made of: fields of forms, queues, bounded calls."""
