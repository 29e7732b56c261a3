"""Who does the research of a run: by the declared space, or by a language model."""
