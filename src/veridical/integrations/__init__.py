"""Connect Veridical to frameworks for building and evaluating applications.

Each adapter needs the extra of its name.

Import an adapter from its module, because this package itself loads nothing.
"""
