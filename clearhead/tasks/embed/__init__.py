"""Embed texts as vectors."""
