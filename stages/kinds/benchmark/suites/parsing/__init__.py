"""What is understood of an answer: the text outside of thought, a letter, a number, a program."""
