"""Analyse language by rules: words, sentences, values, names, signs, citations, markup."""
