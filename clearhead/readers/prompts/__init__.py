"""Read prompts with answers, and conversations."""
