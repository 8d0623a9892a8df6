"""Detectors that read the states of a local language model: log-probability, salience, probes."""
