"""From a model to answers."""
