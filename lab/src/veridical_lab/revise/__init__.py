"""Revisions that are only needed for answers with several perspectives."""
