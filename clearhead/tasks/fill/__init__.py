"""Predict masked tokens."""
