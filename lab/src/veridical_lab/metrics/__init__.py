"""Measure detectors on spans, tokens, pairs and coverage, test their differences, and measure how annotators agree."""
