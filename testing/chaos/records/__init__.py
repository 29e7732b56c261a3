"""What pods and users note while a campaign runs."""
