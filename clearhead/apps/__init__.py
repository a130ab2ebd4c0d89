"""A trained model in use, a file a kind of task."""
