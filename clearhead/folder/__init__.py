"""Model folders and checkpoints on disk."""
