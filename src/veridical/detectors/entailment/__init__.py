"""Entailment of sentences or responses by sources, with any cross-encoder (`entailment:FOLDER`)."""
