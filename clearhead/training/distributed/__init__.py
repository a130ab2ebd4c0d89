"""Training in several processes: their communication and how they're started."""
