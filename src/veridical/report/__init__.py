"""Reports for people: in a terminal (`terminal`), as one HTML page (`html`), and for other programs (SARIF, JUnit).

Pure functions: records in, text out. They score and decide nothing beyond `core.decide`. Import a function from its
module: this package itself loads nothing.
"""
