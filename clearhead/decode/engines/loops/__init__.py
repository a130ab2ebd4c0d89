"""Decoding as plain loops over numpy arrays, compiled just in time."""
