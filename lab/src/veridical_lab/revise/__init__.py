"""Revision methods only for the laboratory: for answers with several perspectives, and for studies."""
