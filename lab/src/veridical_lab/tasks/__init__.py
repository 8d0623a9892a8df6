"""Generate texts from sources with models, and turn the texts into cases."""
