"""The invariants, a module for each subject, pure."""
