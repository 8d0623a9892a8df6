"""Adapt the default detector to your documents.

A chat model or fixed rules write statements about the documents. The detector is trained further on the statements that
pass all checks, and the new detector is kept only if it is better.
"""
