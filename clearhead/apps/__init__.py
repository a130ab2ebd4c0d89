"""Apps: trained models that take raw input and return raw output."""
