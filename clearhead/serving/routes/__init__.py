"""What each path answers: LibreTranslate's API, OpenAI's, the tasks, and the page."""
