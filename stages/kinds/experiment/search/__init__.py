"""The search of one stage: programs proposed, run and chosen from."""
