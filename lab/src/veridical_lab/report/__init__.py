"""The laboratory's records as tables, figures and pages."""
