"""What only the laboratory does with local transformers."""
