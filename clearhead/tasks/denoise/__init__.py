"""Recover masked tokens: how a warm start learns from the texts of another task."""
