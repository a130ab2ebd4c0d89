"""Recover masked tokens, as a warm start for other tasks."""
