"""Data types that all parts of Veridical share, and the protocol that detectors follow.

This package imports no other part of Veridical.
"""
