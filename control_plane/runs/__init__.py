"""Runs as people and pods steer them: submitted, claimed, explained, decided, cancelled."""
