"""Report results to people, in a terminal (`terminal`) or as one HTML page (`html`), and to programs (SARIF, JUnit).

All functions take records and return text. They do not score anything, and all decisions come from `records.decide`.
Import a function from its module, because this package itself loads nothing.
"""
