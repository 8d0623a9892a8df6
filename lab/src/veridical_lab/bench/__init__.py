"""Benchmarks: detectors × data sets × metrics, as result rows that say how to repeat them."""
