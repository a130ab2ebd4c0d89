"""Everything on disk: model folders and checkpoints."""
