"""Train a model, from files to a model folder."""
