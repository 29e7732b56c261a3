"""Notifications that leave the fleet: what happened becomes deliveries to webhooks, chat and mail."""
