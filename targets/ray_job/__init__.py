"""A Ray cluster, a trial an actor on one of its nodes."""
