"""The verbs that use models: one for each task."""
