"""Compare response and sources token by token, after encoding each of them once and separately (late interaction)."""
