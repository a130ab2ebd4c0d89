"""Marian's model format, in which OPUS-MT publishes its models."""
