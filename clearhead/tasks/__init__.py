"""The tasks: their examples, losses, answers and scores."""
