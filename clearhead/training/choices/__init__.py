"""Choose settings for the user: recipe, time budget, forecast."""
