"""Optimizers: Adam, AdamW and Muon."""
