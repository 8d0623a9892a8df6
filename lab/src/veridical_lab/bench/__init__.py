"""Measure detectors on data sets by metrics, as result rows that say how to repeat the measurement."""
