"""Thin adapters to frameworks for building and evaluating applications; each needs the extra of its name.

Import an adapter from its module: this package itself loads nothing.
"""
