"""Revisions that only the laboratory needs, for answers with several perspectives and for studies."""
