"""Show how a model's view of one text changes during training."""
