"""The papers' detectors: a package per family, one module per method."""
