"""Marian's own form of models, in which OPUS-MT publishes them."""
