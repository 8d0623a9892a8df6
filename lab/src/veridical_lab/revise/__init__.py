"""Revisions that only answers with several perspectives need."""
