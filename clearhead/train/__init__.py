"""From files to a model folder.

The package and the function of the public interface have one name: `clearhead.train(config, out)` calls `run.train`,
whatever has been imported before.
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The function `train` of `clearhead.train.run`."""
        from .run import train

        return train(*arguments, **named)


sys.modules[__name__].__class__ = _CallablePackage
