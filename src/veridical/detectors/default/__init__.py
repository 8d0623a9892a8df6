"""The detector in the box: a small encoder that comes with the package, and word overlap."""
