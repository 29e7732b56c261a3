"""The catalogue of models: names that runs use in the place of addresses."""
