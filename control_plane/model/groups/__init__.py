"""Groups of runs: their statuses, their plans, and what each plan submits next; pure."""
