"""Models converted to CTranslate2's form, in the user's cache folder. They can be deleted at any time.

~/.cache/clearhead/ct2/0f3c...  named after the weights, settings and precision of the model; a manifest detects damage
"""

import json
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from ...config.messages import say
from ...errors import ModelError
from ...folder.adapters import weights_digest
from ...folder.atomic import cache_folder, remove_folder, writing
from ...folder.manifest import Manifest, digest, read_bytes, read_verified
from ...folder.model_folder import WEIGHTS, read_settings

_VERSION = 2  # of what's written here; a new one converts all models again
_OLD = 86_400  # seconds after which an unfinished conversion has certainly been interrupted


def cached_model(path: Path, precision: str = "fp32") -> Path:
    """Return the folder with a model in CTranslate2's form. It's written if it's missing or damaged.

    Several processes can do this at the same time.

    Args:
        path: a model folder, whose custom code may be imported.
        precision: fp32 or int8.

    Raises:
        ModelError: the model folder is damaged, or CTranslate2 answers differently.
        TrainingError: the cache folder can't be written to.
    """
    found = _folder(path, precision)
    if _is_whole(found):
        return found
    from ..ct2 import convert

    parent = found.parent
    with writing(parent, again="try again", instead="choose another one with XDG_CACHE_HOME"):
        parent.mkdir(parents=True, exist_ok=True)
        _remove_interrupted(parent)
        with tempfile.TemporaryDirectory(prefix=".", dir=parent, ignore_cleanup_errors=True) as temporary:
            convert(path, written := Path(temporary) / "model", precision)
            _move(written, found)
    say(f"converted {path} for CTranslate2 in {precision}, once: {found}")
    return found


@dataclass(frozen=True)
class Ct2Converter:
    """Converts model folders to CTranslate2's form, in the user's cache folder."""

    precision: str

    def __call__(self, path: Path) -> Path:
        """Return the converted model of a folder."""
        return cached_model(path, self.precision)

    def is_converted(self, path: Path) -> bool:
        """Return whether the converted model exists."""
        with suppress(OSError):  # a cache that can't be read
            return _folder(path, self.precision).is_dir()
        return False


CONVERTERS: Mapping[str, Ct2Converter] = MappingProxyType({f"ct2-{it}": Ct2Converter(it) for it in ("fp32", "int8")})


def _folder(path: Path, precision: str) -> Path:
    """Return the folder for a model, which changes with its weights, its settings and the precision."""
    config, manifest = read_settings(path, allow_custom_code=True)[0].model, Manifest.read(path)
    known = None if manifest.incoming else weights_digest(path)
    weights = known or digest(read_bytes(path / WEIGHTS))
    key = digest(json.dumps([_VERSION, precision, weights, asdict(config)]).encode())
    return cache_folder() / "ct2" / key[:32]


def _is_whole(folder: Path) -> bool:
    """Return whether a folder exists, with all files undamaged."""
    try:
        read_verified(folder)
    except ModelError:
        return False
    return True


def _move(written: Path, target: Path) -> None:
    """Put a folder in its place, unless another process was faster."""
    if target.exists() and not _is_whole(target):
        with suppress(FileNotFoundError):  # another process did the same
            remove_folder(target)
    try:
        written.rename(target)
    except OSError:
        if not _is_whole(target):
            raise


def _remove_interrupted(parent: Path) -> None:
    for it in parent.glob(".*"):
        with suppress(OSError):
            if time.time() - it.stat().st_mtime > _OLD:
                shutil.rmtree(it, ignore_errors=True)
