"""Encode the response and each source once and separately, then compare them token by token (late interaction)."""
