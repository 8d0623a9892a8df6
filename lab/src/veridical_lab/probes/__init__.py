"""Training of probes, the activations to train them on, and analyses of what they see."""
