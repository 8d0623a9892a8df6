"""Measure detectors on data sets with metrics. Each result row says how to repeat the measurement."""
