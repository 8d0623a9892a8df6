"""Metrics of annotators and of comparisons."""
