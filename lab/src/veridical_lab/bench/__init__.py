"""Measure detectors on data sets by metrics. Each result row says how to repeat the measurement."""
