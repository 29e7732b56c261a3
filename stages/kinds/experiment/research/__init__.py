"""The researcher of a run: by the declared space, or by a language model."""
