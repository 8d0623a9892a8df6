"""The default detector: a small encoder that comes with the package, combined with word overlap."""
