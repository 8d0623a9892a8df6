"""From texts to an agreed, balanced data set: what to annotate, by whom, what they agree on, and its release."""
