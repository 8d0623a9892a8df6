"""Claim-level verification: the response in claims, each checked by itself."""
