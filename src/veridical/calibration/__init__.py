"""Fit thresholds and probabilities for any detector on labelled data."""
