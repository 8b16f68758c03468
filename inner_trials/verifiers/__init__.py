"""Judges of a model's answers: exact, numeric, math, JSON schema and unit tests of code."""
