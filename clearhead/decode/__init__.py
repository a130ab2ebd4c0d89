"""Search and sampling over decoding engines."""
