"""From texts to an agreed, balanced data set: choose what to annotate, collect labels, find consensus, release."""
