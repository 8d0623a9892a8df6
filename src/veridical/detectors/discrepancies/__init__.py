"""Find discrepancies: words or values of a response that clearly differ from its sources, by fixed rules."""
