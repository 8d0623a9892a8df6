"""Train detectors that learn from labelled text: data, optimisation, artifacts."""
