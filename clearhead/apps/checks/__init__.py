"""Checks of a trained model: ablation of its components, and the data for `verify`."""
