"""Code for local transformers that only the laboratory needs."""
