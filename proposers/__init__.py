"""What suggests the next candidate."""
