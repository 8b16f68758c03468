"""The frozen evaluator: bundle, collection, scores, statistics."""
