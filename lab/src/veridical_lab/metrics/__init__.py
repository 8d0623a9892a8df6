"""Agreement between annotators, and permutation tests between detectors."""
