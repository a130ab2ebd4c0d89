"""The user's cache folder, for files that can be deleted at any time."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the user's cache folder: $XDG_CACHE_HOME/clearhead, or ~/.cache/clearhead.

    A user without a home folder has none: the path can't be created.
    """
    home = os.path.expanduser("~")  # noqa: PTH111 - unlike pathlib's, it doesn't fail without one
    cache = os.environ.get("XDG_CACHE_HOME") or f"{os.devnull if home == '~' else home}/.cache"
    return Path(cache) / "clearhead"
