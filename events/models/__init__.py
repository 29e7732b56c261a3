"""Language models as data: who provides them, and which engines serve them; pure."""
