"""Word features: model-based, statistical, grammatical and against the sources, and the detector made of them."""
