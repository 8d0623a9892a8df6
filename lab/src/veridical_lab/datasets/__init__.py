"""Readers of labelled data in its publishers' own formats: a module per data set, or per family of similar ones."""
