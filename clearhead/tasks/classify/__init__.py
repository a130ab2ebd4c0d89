"""Label texts."""
