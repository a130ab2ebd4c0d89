"""Scores and significance tests, as pure functions."""
