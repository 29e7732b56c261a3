"""Files of a run between this pod and object storage."""
