"""Command-line interface. Importing it doesn't import torch."""

from .entry import main

__all__ = ["main"]
