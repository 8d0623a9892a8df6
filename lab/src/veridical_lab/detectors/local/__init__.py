"""Detectors that read a local language model: log-probability, salience, probes."""
