"""The web application: HTTP, the API and the pages on one set of dependencies."""
