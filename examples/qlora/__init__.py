"""Supervised fine-tuning with LoRA on a base stored in 4 bits."""
