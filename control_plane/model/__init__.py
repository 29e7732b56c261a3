"""What the documents are and what may be concluded of them; pure, and below the store."""
