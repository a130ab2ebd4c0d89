"""Text to batches of tokens."""
