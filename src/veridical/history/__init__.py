"""Keep runs, their cases and people's decisions about the cases in a database: SQLite, or PostgreSQL by its URL."""
