"""Environments that answer back: several turns of one completion, and a reward at the end."""
