"""Check with a cross-encoder whether the sources entail the sentences of a response (`entailment:FOLDER`)."""
