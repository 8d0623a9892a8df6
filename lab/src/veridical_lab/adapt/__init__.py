"""Adapt the default detector to your documents.

A chat model or rules write statements about the documents. The statements are checked and used for training, and the
new detector is kept only if it is better.
"""
