"""Other tools' forms of a study: Optuna, MLflow, a Hugging Face model folder, autoresearch-rl."""
