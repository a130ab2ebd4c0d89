"""Summarize documents."""
