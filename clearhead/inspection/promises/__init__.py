"""Check properties that every model must have ("promises"), such as causality, on a given model."""
