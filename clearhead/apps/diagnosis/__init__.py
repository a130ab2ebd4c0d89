"""Find out why a run learned less than it could have."""
