"""Faults that are injected on purpose: `make faults` runs them all; `make test` does not, because they take minutes."""
