"""Train probes, store the activations to train them on, and analyse what probes see."""
