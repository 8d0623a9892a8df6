"""Report results to people, in a terminal (`terminal`) or as one HTML page (`html`), and to programs (SARIF, JUnit).

All functions are pure: records in, text out. They score and decide nothing beyond `records.decide`. Import a function
from its module, because this package itself loads nothing.
"""
