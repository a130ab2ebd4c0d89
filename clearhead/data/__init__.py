"""Splits, batches, tokens on disk, and encoding in several processes."""
