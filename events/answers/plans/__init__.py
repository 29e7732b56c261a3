"""How the plans of groups stand, as the HTTP interface shows them."""
