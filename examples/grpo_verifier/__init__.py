"""Reinforcement learning with a verifier, from the demo's task to a promoted model, offline."""
