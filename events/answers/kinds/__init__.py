"""The answers of the routes of kinds: their descriptions, and the resources that one adds."""
