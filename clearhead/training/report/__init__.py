"""Metrics log, model card, TensorBoard."""
