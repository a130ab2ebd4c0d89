"""Watch how one text is read while a model trains."""
