"""What is decided about races beside their start: who takes part, whether it fits, and who won."""
