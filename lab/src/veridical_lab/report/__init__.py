"""Show the results of the laboratory as tables, plots and pages."""
