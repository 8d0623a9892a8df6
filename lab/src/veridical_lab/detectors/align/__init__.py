"""Late interaction: response and sources are encoded once each, apart, and compared token by token."""
