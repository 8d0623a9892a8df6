"""Connect Veridical to frameworks for building and evaluating applications.

To use an adapter, install the extra of the same name and import the adapter from its module. This package itself loads
nothing.
"""
