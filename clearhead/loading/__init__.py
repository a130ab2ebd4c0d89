"""Trained models, opened: their settings, tokenizers, task and weights."""
