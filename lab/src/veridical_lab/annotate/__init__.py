"""Make an agreed, balanced data set from texts: choose what to annotate, collect labels, find consensus, release."""
