"""Copy the model that `clearhead demo` has trained into the package: `python -m tools.demo_model runs/demo`.

The package's model is called `demo`. Its card says how to train it again.
"""

import platform
import shutil
import sys
from pathlib import Path

import torch

from clearhead import __version__
from clearhead.folder.adapters import weights_digest
from clearhead.folder.atomic import BUNDLED
from clearhead.folder.checkpoint import FILM, METRICS
from clearhead.folder.manifest import MANIFEST, read_verified
from clearhead.folder.model_folder import CARD, read_card, save_files
from clearhead.training.report.card import with_section

_AGAIN = """\
`clearhead demo` trains this model again, in about five minutes, with one thread and seed 0. On an AMD EPYC (Zen 4),
Clearhead {version} with PyTorch {torch} and Python {python} gives the same weights each time. Their SHA-256 is
`{digest}`.
Other processors and versions may round differently, which ends with other weights and about the same scores."""


def put_in_the_package(demo: Path, package: Path = BUNDLED) -> None:
    """Copy a demo's model without its data, checkpoints and pictures, and say on its card how to train it again."""
    manifest = read_verified(demo)
    versions = {"torch": torch.__version__.partition("+")[0], "python": platform.python_version()}
    again = _AGAIN.format(version=__version__, digest=weights_digest(demo), **versions)
    save_files(demo, {CARD: with_section(read_card(demo), "Train it again", again).encode()})
    package.mkdir(parents=True, exist_ok=True)
    for name in (*manifest, MANIFEST, METRICS, FILM):
        shutil.copyfile(demo / name, package / name)


if __name__ == "__main__":
    put_in_the_package(Path(sys.argv[1]))
