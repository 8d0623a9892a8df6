"""Revisions that only answers with perspectives need."""
