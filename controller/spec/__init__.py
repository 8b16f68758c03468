"""The study file: its models, and how one is read from disk."""
