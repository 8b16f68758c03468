"""Attempts that workers outside of ARL fetch, run wherever they are, and tell the end of."""
