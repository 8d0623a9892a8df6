"""What learns, and the activations that it learns from; each writes an artifact that a detector reads."""
