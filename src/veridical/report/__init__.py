"""What was found, shown to people: in a terminal (`terminal`) and as one HTML page (`html`).

Pure: records in, text out. Nothing is scored or decided here that `core.decide` does not decide. Import the
function that is wanted from its module; this package itself loads nothing.
"""
