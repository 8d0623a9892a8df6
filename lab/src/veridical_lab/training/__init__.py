"""Train detectors on labelled text."""
