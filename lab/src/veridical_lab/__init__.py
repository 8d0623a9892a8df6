"""The laboratory of Veridical: the papers' methods, their data, training and evaluation."""

__version__ = "0.1.0"
