"""Classify whole responses, and their coverage, by tuned prompts, LoRA and classification heads."""
