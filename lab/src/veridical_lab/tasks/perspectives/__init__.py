"""Write answers with several perspectives (Chang et al. 2024), from arguments in a knowledge base."""
