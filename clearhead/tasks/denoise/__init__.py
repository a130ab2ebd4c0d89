"""Recover masked tokens: the warm start of other tasks."""
