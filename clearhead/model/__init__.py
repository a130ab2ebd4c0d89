"""The Transformer, module by module."""
