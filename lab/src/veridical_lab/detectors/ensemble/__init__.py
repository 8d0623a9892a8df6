"""Several detectors as one: their scores combined by fitted weights, or the cheap ones asked first."""
