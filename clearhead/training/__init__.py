"""From files to a model folder."""
