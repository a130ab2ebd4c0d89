"""Uploaded images and recordings, as temporary files."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request

from ...errors import DataError
from ...readers.media.images import probe_image
from ..bodies import form_of
from ..limits import RequestError
from ..served_models import ServedModel

MULTIPART = "multipart/form-data"
_FIELDS = 100  # in a form


@dataclass(frozen=True)
class Upload:
    """A file that a client sent under `name`, and where it is."""

    name: str
    path: Path

    @contextmanager
    def named(self) -> Iterator[None]:
        """Replace the path by the client's name in errors of the `with` block."""
        try:
            yield
        except DataError as error:
            what = error.what.replace(str(self.path), self.name)
            raise RequestError(400, what, expected=error.expected, fix=error.fix, name="file") from error


def is_upload(request: Request) -> bool:
    """Return whether a request is a form with files."""
    return request.headers.get("content-type", "").lower().startswith(MULTIPART)


@asynccontextmanager
async def uploaded_files(request: Request) -> AsyncIterator[tuple[dict[str, Any], list[Upload]]]:
    """Yield the fields of a form, and its files under `file`, which exist inside the `with` block.

    Raises:
        RequestError: the form is malformed, or has no file.
    """
    with TemporaryDirectory(prefix="clearhead-") as folder:
        async with form_of(request, max_files=_FIELDS, max_fields=_FIELDS) as form:
            others = [name for name, it in form.multi_items() if isinstance(it, UploadFile) and name != "file"]
            if others:
                what = f"there's no field {others[0]!r} for files"
                raise RequestError(400, what, expected="files in the field `file`", name=others[0])
            sent = [it for _, it in form.multi_items() if isinstance(it, UploadFile)]
            files = [await saved(it.filename or "", await it.read(), folder, n) for n, it in enumerate(sent)]
            fields = {name: it for name, it in form.multi_items() if isinstance(it, str)}
        if not files:
            raise RequestError(400, "the form has no file", expected="a file in the field `file`", name="file")
        with ExitStack() as stack:
            for file in files:
                stack.enter_context(file.named())
            yield fields, files


def expect_modality(model: ServedModel, modality: str = "") -> None:
    """Raise RequestError if the model reads no files, or none of this modality."""
    if model.modality == "text" or modality not in ("", model.modality):
        what, expected = f"the model {model.name!r} reads {model.reads}", modality or "images or audio"
        raise RequestError(400, what, expected=f"a model that reads {expected}", name="model", value=model.name)


def expect_text(model: ServedModel, *, takes_files: bool = False) -> None:
    """Raise RequestError if the model reads files: a path in a body would be read on this machine."""
    if model.modality != "text":
        what = f"the model {model.name!r} reads {model.reads}"
        expected = "an upload: multipart/form-data with files" if takes_files else "a model that reads text"
        raise RequestError(400, what, expected=expected, name="model", value=model.name)


async def check_pixels(model: ServedModel, file: Upload) -> None:
    """Raise RequestError if a file is an image that would need too much memory when it's decoded."""
    if model.modality != "image":
        return
    size, most = await asyncio.to_thread(probe_image, str(file.path)), model.limits.pixels
    if size.height * size.width > most:
        what, expected = f"{file.name} has {size.width:,} x {size.height:,} pixels", f"at most {most:,} pixels"
        raise RequestError(413, what, expected=expected, fix="send a smaller version", name="file")


async def saved(name: str, content: bytes, folder: str, number: int = 0) -> Upload:
    """Write a file into a folder. Its name decides nothing but the ending, which tells readers the format.

    Args:
        name: the client's name for the file, which may be anything.
        content: its bytes.
        folder: an existing folder.
        number: the name of the new file, without an ending.
    """
    name = PurePosixPath(name.replace("\\", "/")).name
    ending = PurePosixPath(name).suffix.lower()
    path = Path(folder) / f"{number}{ending if ending[1:].isalnum() and ending.isascii() and len(ending) < 8 else ''}"
    await asyncio.to_thread(path.write_bytes, content)
    return Upload(name, path)
