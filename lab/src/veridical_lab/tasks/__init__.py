"""Generate grounded texts: from structured input and a prompt to a `Case` with a model's response."""
