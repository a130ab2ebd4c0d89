"""Scores, resampling and significance: pure functions."""
