"""Continuous campaigns: serve, gather consented experience, try, promote, watch, take back."""
