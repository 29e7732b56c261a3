"""Hostile input, made by machines: the API from its own description, and the codecs from anything at all."""
