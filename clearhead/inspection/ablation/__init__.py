"""Measure what each part of a model is worth by switching it off."""
