"""Notice changes to a torch module, so that engines with their own copy of its weights can be opened again."""

from collections.abc import Hashable
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


class ModuleWatch:
    """Compares a module with its state when the watch began.

    Editing a weight through `.data` or a NumPy array isn't noticed, because PyTorch doesn't count that as a change.

    Args:
        digest: the SHA-256 of the file that its weights were read from.
    """

    def __init__(self, module: "nn.Module", digest: str) -> None:
        self.module, self.digest = module, digest
        self._modules = list(module.modules())
        self._tensors = [*module.parameters(), *module.buffers()]
        self._structure, self._versions = self._current_structure(), self._current_versions()

    @property
    def changes(self) -> Hashable:
        """A value that's different after each change, or None if the module is as it was."""
        now = self._current_structure(), self._current_versions()
        return None if now == (self._structure, self._versions) else now

    @property
    def is_modified(self) -> bool:
        """True if parts were replaced or have hooks, so the weights alone don't determine what the module computes."""
        return self._current_structure() != self._structure

    def _current_structure(self) -> Hashable:
        return tuple(
            (
                len(it._forward_hooks),
                len(it._forward_pre_hooks),
                *map(id, chain(it._modules.values(), it._parameters.values())),
            )
            for it in self._modules
        )

    def _current_versions(self) -> Hashable:
        return tuple((it.data_ptr(), it._version) for it in self._tensors)
