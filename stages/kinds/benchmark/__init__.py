"""Benchmarks of language models: the pipeline, its engine, and the suites of questions."""
