"""Token and span classifiers on a transformer's states (`veridical train tokens`)."""
