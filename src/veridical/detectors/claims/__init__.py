"""Claim-level verification: split the response into claims and check each one by itself."""
