"""Checks of a trained model: ablation of its parts, and what its promises are verified on."""
