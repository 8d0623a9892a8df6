"""Readers of labelled data in the formats of their publishers: one module per data set or family of similar sets."""
