"""Fronts: from a model's inputs to the embeddings that enter its first block."""
