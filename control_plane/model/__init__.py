"""The documents as types, and what follows from them; pure, and below the store."""
