"""Keep runs, their cases and people's decisions about them in a database: SQLite, or PostgreSQL by its URL."""
