"""A reward model, and fine-tuning on the best of N answers that it judged."""
