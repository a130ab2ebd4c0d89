"""Scores and significance, as pure functions."""
