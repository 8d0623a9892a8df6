"""Keep runs, their cases and people's decisions about the cases in a database: SQLite, or PostgreSQL by its URL.

A run is a set of cases that were checked together, such as the cases of one request or the rows of one imported file. A
decision is a person's opinion on one place of a case. A place is a span of the response or of a source.
"""
