"""Summarise documents."""
