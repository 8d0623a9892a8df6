"""Compute features of words from models, statistics, grammar and the sources, and judge words by these features."""
