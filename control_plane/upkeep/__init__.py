"""Changes by time: rescue of lost attempts, promotion of delayed runs, removal of orphans."""
