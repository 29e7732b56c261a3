"""What a person typed into a form or an address, read into what the program takes."""
