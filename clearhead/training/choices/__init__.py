"""Choose the settings that the user left open: hyperparameters, steps for a budget, memory, threads."""
