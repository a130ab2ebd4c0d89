"""Trained models in use: raw input in, raw output out."""
