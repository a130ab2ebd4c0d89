"""Record a forward pass without changing it."""
