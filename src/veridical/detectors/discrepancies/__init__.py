"""Find discrepancies, which are places in a response that the sources contradict according to a rule."""
