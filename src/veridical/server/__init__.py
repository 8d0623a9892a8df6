"""Veridical as an HTTP service: JSON routes, a web page, and a proxy that checks chat replies (`veridical serve`)."""
