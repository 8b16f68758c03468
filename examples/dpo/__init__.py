"""Preference optimisation of a tiny language model on pairs."""
