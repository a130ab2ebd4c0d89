"""Translate sentences."""
