"""A self-check of any target through its contract alone: tried, not believed."""
