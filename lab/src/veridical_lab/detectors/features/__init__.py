"""Compute word features (from models, statistics, grammar and the sources), and judge by them."""
