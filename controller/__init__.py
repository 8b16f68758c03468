"""The service: API, worker, steps, decisions, command line."""
