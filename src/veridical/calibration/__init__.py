"""Thresholds and probabilities fitted on labelled data, for any detector."""
