"""Demos with data made on the spot."""
