"""Conversions of a promoted model: an adapter merged or kept, weights in 8 or 4 bits."""
