"""Grounded generation tasks: structured input, a prompt, a `Case` with the response that a model gave to it."""
