"""Evaluator programs: run inside an evaluate attempt, in isolated mode, from a frozen bundle."""
