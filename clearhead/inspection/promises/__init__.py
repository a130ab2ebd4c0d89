"""Promises of the code, each checked on a given model."""
