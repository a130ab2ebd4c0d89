"""Train a model from data files and save it in a model folder."""
