"""Training of probes, the activations they are trained on, and analyses of what they see."""
