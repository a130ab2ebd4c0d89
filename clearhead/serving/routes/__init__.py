"""Handlers of all paths: LibreTranslate's API, OpenAI's, the tasks, and the page."""
