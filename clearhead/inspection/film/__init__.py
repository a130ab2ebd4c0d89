"""Show how the reading of one text changes while a model trains."""
