"""Run local transformers: loading, encoding, forward passes and generation.

Only this package imports torch or transformers for inference, and only when a model is loaded.
"""
