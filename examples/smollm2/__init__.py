"""LoRA fine-tuning and then GRPO of a real language model on sums with a right answer."""
