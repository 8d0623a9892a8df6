"""Read documents, tables, conversations and JSON, and write files and JSON."""
