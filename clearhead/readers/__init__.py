"""Read files as examples; detect formats and columns."""
