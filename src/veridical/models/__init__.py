"""Local transformers: load, template, encode, runner, sublayers; the only inference code that imports torch.

Nothing here imports torch or transformers until a model is loaded.
"""
