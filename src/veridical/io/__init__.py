"""Files and wire forms: texts of documents, rows of tables, conversations, JSON."""
