"""The pages: rendered here, readable without JavaScript, refreshed with it."""
