"""Settings chosen for the user: recipe, time budget, forecast."""
