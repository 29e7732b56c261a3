"""What is uploaded and how much of it: the budget of each attempt, and the sweep of what was left behind."""
