"""The fields of a body for /api: some are named by the route, all others are search settings."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from ...config.task_spec import SEARCH
from ...errors import suggestion
from ..limits import RequestError
from ..served_models import ServedModel


class Fields:
    """The fields of a body that haven't been read yet."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._left, self._known = dict(values), list[str]()

    def take(self, name: str, kind: Any, default: Any = None) -> Any:
        """Return a field's value. Raise RequestError if it isn't of this kind."""
        self._known.append(name)
        if name not in self._left:
            return default
        try:
            return msgspec.convert(self._left.pop(name), kind)
        except msgspec.ValidationError as error:
            what = str(error).replace("`", "'").replace("$", name)
            raise RequestError(400, f"{name} doesn't fit: {what}", name=name) from error

    def need(self, name: str, kind: Any) -> Any:
        """Return a field's value. Raise RequestError if it's missing."""
        if name not in self._left:
            raise RequestError(400, f"{name} is missing", expected=f"the field {name}", name=name)
        return self.take(name, kind)

    def search(self, model: ServedModel) -> dict[str, Any]:
        """Return all other fields, which are search settings that fit the model and the limits.

        Raises:
            RequestError: a field is unknown, or exceeds a limit.
            ConfigError: a setting is invalid, or has no effect.
        """
        self.finish(SEARCH)
        given = {name: tuple(it) if isinstance(it, list) else it for name, it in self._left.items()}
        if given:
            model.limits.check_search(model.app.decode_config(**given), given)
        return given

    def finish(self, others: Collection[str] = ()) -> None:
        """Raise RequestError if a field is left that isn't one of `others`."""
        for name in self._left:
            if name not in others:
                fix = suggestion(name, [*self._known, *others])
                raise RequestError(400, f"there's no field {name!r}", fix=fix, name=name)
