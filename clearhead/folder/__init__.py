"""Everything on disk: atomic files, model folder, manifest, lock, checkpoints."""
