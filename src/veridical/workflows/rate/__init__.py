"""Estimate the true rate of wrong answers in a run from a few labels.

This package chooses which answers you have to label, and computes the rate from your labels.
"""
