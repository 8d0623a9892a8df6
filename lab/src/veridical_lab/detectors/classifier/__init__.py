"""Classify whole responses and their coverage with tuned prompts, LoRA and classification heads."""
