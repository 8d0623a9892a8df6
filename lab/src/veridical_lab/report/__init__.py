"""Show the laboratory's records as tables, figures and pages."""
