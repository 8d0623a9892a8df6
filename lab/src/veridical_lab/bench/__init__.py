"""Detectors × data sets × metrics: result rows that carry all it takes to believe and to repeat them."""
