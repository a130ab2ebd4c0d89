"""Draw pictures with matplotlib."""
