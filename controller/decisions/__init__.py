"""Decisions: pure functions from records, the clock's reading and a seed to a record."""
