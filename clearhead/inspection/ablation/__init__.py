"""Ablation: measure the effect of each part of a model by switching it off."""
