"""The translator that `clearhead demo` trains."""
