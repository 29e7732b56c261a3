"""The reader of sentences: words, phrases, arms of a comparison, and the patterns of a claim; pure."""
