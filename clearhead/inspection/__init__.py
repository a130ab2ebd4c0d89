"""Look inside a model without changing it."""
