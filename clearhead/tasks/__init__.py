"""Tasks: their data, losses, answers and scores."""
