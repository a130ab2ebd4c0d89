"""Demos that generate their own data."""
