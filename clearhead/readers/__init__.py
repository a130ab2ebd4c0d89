"""Files to examples: tables, JSON lines, aligned files, documents, questions."""
