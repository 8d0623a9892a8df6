"""The true rate of wrong answers in a run, from few labels: which answers to label, and what the labels say."""
