"""The command line: one file a verb, `entry` around them. Importing it does not import torch."""

from .entry import main

__all__ = ["main"]
