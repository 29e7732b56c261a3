"""Engines, a row each: what their documentation says of command lines, parameters and addresses; pure."""
