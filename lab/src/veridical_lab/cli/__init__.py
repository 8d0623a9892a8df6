"""The commands that the laboratory adds to `veridical`; a command imports heavy modules only when it runs."""
