"""The command line: `entry` runs it, `verbs/` has one file per verb. Importing it doesn't import torch."""

from .entry import main

__all__ = ["main"]
