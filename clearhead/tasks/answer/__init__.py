"""Answer questions with a passage of a text."""
