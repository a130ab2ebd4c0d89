"""A trained model in use, one module per kind of task. Importing an app doesn't import torch."""
