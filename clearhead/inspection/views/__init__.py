"""Views of a trace: text for the terminal, plain values, pictures."""
