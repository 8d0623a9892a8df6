"""Veridical as a service: HTTP in, the project's JSON out; the page; and a proxy that checks chat replies (`serve`)."""
