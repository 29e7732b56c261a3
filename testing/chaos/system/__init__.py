"""The system under test: its servers, control planes and pods."""
