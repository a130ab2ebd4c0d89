"""Decoding engines, registered in `decode.registry`."""
