"""Archives that come from elsewhere: what is believed of them, and how they become runs."""
