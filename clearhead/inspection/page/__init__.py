"""The page: one HTML file that shows what a model did with a text, without a server."""
