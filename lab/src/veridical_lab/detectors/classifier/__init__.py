"""Classifiers of whole responses and of coverage: tuned prompts, LoRA and classification heads."""
