"""Models: whose pointer is where, what names it, and the signed evidence of each promotion."""
