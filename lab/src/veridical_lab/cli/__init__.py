"""The commands that the laboratory adds to `veridical`. Heavy modules are imported only when a command runs."""
