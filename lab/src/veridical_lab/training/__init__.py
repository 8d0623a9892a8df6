"""Train detectors on labelled text: make the data, optimise, and write the result to a folder."""
