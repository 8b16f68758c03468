"""Reinforcement learning on grade-school math with vLLM, for a machine with a GPU."""
