"""Adapt the default detector to documents: write statements about them, check these, train, and keep what helps."""
