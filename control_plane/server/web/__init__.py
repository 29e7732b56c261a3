"""The pages: rendered by the server, readable without JavaScript, updated with it."""
