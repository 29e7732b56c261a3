"""Values and secrets as text: for people, terminals, spreadsheets and logs."""
