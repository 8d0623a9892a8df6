"""Measure the agreement between annotators, and test differences between detectors by permutation."""
