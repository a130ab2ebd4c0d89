"""Splits, batches, and tokens on disk."""
