"""Decoding as plain loops over numpy arrays, compiled for the machine."""
