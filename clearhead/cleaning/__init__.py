"""Find faulty lines in training data, and write files without them."""
