"""Front ends, which turn a model's inputs into embeddings."""
