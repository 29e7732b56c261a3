"""Sign-in by OpenID Connect: the issuer's words, what is believed of them, and the tokens of users."""
