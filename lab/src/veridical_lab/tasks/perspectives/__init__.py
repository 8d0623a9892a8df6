"""Write answers with several perspectives (Chang et al. 2024): knowledge base, retrieval, task format, generator."""
