"""Thin adapters to frameworks that applications and evaluations are built with; each needs the extra of its name.

Import the adapter that is wanted from its module; this package itself loads nothing.
"""
