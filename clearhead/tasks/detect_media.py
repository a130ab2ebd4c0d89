"""Detect the task that images or recordings are for, from their first labels or texts."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..config import DataConfig
from ..data.media_forms import RECORDINGS, TRANSCRIPTS
from ..errors import DataError
from ..readers.files import Input, is_folder
from ..readers.lines import HEAD_LINES
from ..readers.media.media_files import PLURAL, manifest_in
from ..readers.media.media_source import MediaSource

_ENOUGH = 20  # minimum number of rows to see whether texts repeat
_CAPTIONS = 0.9  # minimum distinct targets per image, for captions


def media_task(paths: Sequence[str | Path | Input], data: DataConfig, modality: str) -> tuple[str, str]:
    """Return the task, and why: labels are repeated, transcripts aren't.

    Data that can't be read has the task that training then reports the error for.

    Raises:
        DataError: the data consists of images with captions, for which there's no task.
    """
    what = PLURAL[modality]
    if len(paths) == 1 and _is_folder_of_labels(paths[0]):
        return "classify", f"the data is a folder of {what} with a folder for each label"
    targets, named = _targets(paths, data, modality)
    if modality == "image":
        if len(targets) >= _ENOUGH and len({*targets}) > _CAPTIONS * len(targets) and any(" " in it for it in targets):
            raise _captions(paths, targets)
        return "classify", f"the data consists of {what} with labels"
    often = 4 if named else 2  # a column named text has labels only if they're repeated more
    if not targets or (len(targets) >= 2 and often * len({*targets}) <= len(targets)):
        return "classify", f"the data consists of {what} with labels, which are repeated"
    return "transcribe", f"the data consists of {what} with a text each"


def _is_folder_of_labels(path: str | Path | Input) -> bool:
    return not isinstance(path, Input) and is_folder(Path(path)) and manifest_in(Path(path)) is None


def _targets(paths: Sequence[str | Path | Input], data: DataConfig, modality: str) -> tuple[list[str], bool]:
    """Return the first targets, and whether their column is named as one of transcripts."""
    names = (*TRANSCRIPTS.target_names, *RECORDINGS.target_names)
    roles = replace(TRANSCRIPTS, target_names=names, labels=modality == "image")
    try:
        with MediaSource(paths, data, roles, modality) as source:
            targets = [target for _, _, target in itertools.islice(source, HEAD_LINES)]
            return targets, TRANSCRIPTS.named(source.columns)[1] is not None
    except DataError:  # reading it for the task will raise a clear error
        return [], False


def _captions(paths: Sequence[str | Path | Input], targets: Sequence[str]) -> DataError:
    name = " and ".join(path.name if isinstance(path, Input) else str(path) for path in paths)
    return DataError(
        f"{name} has a different text for almost every image, such as {targets[0]!r:.60}",
        expected="labels that are repeated; there's no task that writes captions",
        fix="if another column has labels, name it with `data.target_column`",
        name=name,
        value=len({*targets}),
    )
