"""Classify tokens and spans by the hidden states of a transformer (`veridical train tokens`)."""
