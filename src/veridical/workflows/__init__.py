"""Use detectors: check one case or many rows, revise, find causes, estimate rates, calibrate."""
