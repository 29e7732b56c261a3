"""Object storage: signed URLs, multipart uploads, inspection of objects, and limits of an attempt."""
