"""Checks of a trained model: ablation of its parts, and the data for verifying its promises."""
