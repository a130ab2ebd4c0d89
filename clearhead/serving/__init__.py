"""Models served over HTTP: translations, completions, labels, and the page."""
