"""The paper: composed of blocks, set as LaTeX and PDF, its numbers traced to events."""
