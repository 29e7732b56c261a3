"""The limits of a hostile program, and the isolations that can enforce them."""
