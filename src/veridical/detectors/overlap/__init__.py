"""Word overlap between response and sources."""
