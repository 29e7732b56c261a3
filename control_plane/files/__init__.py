"""Object storage: signed URLs, uploads in parts, what was read of an object, and what an attempt may keep."""
