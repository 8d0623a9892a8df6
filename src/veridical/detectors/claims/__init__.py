"""Verify a response claim by claim: split it into claims, and check each claim separately."""
