"""What declarations of kinds are made of: specifications, fields of forms, queues."""
