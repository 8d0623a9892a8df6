"""Local transformers: loading, prompt templates, encoding, forward passes, generation.

Only this package imports torch or transformers for inference, and only once a model is loaded.
"""
