"""Pictures as SVG that the server draws, and which pictures there are."""
