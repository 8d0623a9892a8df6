"""The commands that the laboratory adds to `veridical`; a command imports nothing heavy before it runs."""
