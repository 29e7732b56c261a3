"""The pages of boards, and of a number over time."""
