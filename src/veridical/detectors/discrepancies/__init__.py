"""Find discrepancies: places where a response clearly differs from its sources, by fixed rules."""
