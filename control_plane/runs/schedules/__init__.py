"""Schedules: runs at the times of a cron entry."""
