"""The bench of searches: recorded surfaces, and how soon each sampler finds their best."""
