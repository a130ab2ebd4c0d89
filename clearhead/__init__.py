"""A Transformer you can see through."""
