"""Export models to a web page, which runs them in the browser without a server."""
