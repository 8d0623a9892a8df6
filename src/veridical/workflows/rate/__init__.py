"""Estimate the true rate of wrong answers in a run from a few labels.

This package chooses the answers to label, and computes the rate from the labels.
"""
