"""Make a balanced data set with agreed labels: choose what to annotate, collect labels, find consensus, release."""
