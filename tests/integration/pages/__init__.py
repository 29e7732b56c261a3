"""The tests of the web pages: a package, so that what they share ends with the last of them."""
