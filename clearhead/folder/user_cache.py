"""The user's cache folder, for files that can be deleted at any time."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the user's cache folder: $XDG_CACHE_HOME/clearhead, or ~/.cache/clearhead."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clearhead"
