"""The experiment: an idea is tried by a bounded search, judged by fresh measurements, and written up."""
