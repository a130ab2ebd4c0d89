"""Draw pictures with matplotlib, without a screen."""
