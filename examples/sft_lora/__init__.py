"""Supervised fine-tuning of a tiny language model with LoRA."""
