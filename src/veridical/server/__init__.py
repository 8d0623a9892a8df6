"""Serve Veridical over HTTP: JSON routes, a web page, and a proxy that checks chat replies (`veridical serve`)."""
