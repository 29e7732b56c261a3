"""The pages of what the fleet did and what it cost."""
