"""The statements of the queue, for workers and control planes; pure."""
