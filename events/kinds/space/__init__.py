"""The declared space: what can be changed, measured and measured on, and the reader of claims; pure."""
