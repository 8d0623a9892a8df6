"""Train probes on a model's hidden states, store these states (activations), and analyse what probes see."""
