"""Score responses by the words that they share with their sources."""
