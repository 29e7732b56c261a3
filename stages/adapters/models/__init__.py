"""Language models behind the APIs of their providers."""
