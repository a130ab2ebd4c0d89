"""The models that a server has loaded, by name."""

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..apps.app import App
from ..config.messages import say
from ..errors import ClearheadError, ConfigError, ModelError, suggestion
from ..folder.adapters import expect_adapter, weights_digest
from ..folder.model_folder import model_path
from .batching import Batcher
from .limits import RequestError, RequestLimits
from .work import EXPLAINING, Work, open_explanations, open_group, warm

_LANGUAGE = r"[a-z]{2,3}(?:[_][A-Za-z]{2,4})?"
_PAIR = re.compile(rf"(?:^|[^A-Za-z])({_LANGUAGE})-({_LANGUAGE})$")


@dataclass(frozen=True)
class Languages:
    """Source and target language of a translator, as ISO 639 codes."""

    source: str
    target: str

    @classmethod
    def of(cls, name: str) -> "Languages | None":
        """Return the languages that a name such as "en-fr" or "opus-mt-en-de" ends with, or None."""
        found = _PAIR.search(name)
        return cls(*found.groups()) if found else None


@dataclass(frozen=True)
class ServedModel:
    """A loaded model with its queues: one for explanations, and one for everything else."""

    name: str
    app: App
    batcher: Batcher
    explanations: Batcher
    limits: RequestLimits
    languages: Languages | None = None
    is_variant: bool = False  # of another served model, by an adapter, so only requests that name it mean it

    @property
    def verb(self) -> str:
        """The task, such as "translate"."""
        return self.app.task.verb

    @property
    def modality(self) -> str:
        """Kind of the model's input: "text", "image" or "audio"."""
        return self.app.task.modalities[0]

    @property
    def examples(self) -> list[str]:
        """Texts to try the model with, if it needs no other input."""
        found = self.app.loaded.examples() if self.modality == "text" and self.verb != "answer" else []
        return [text for text in found if len(text) <= self.limits.chars]

    @property
    def reads(self) -> str:
        """The modality as messages name it, such as "images"."""
        return "images" if self.modality == "image" else self.modality

    async def answers(self, work: Work, inputs: Sequence[Any]) -> list[Any]:
        """Return an answer to each input; see `Batcher.answers`."""
        queue = self.explanations if work.method in EXPLAINING else self.batcher
        return await queue.answers(work, inputs, self.limits.seconds)

    def stream(self, work: Work, inputs: Sequence[Any]) -> AsyncGenerator[tuple[int, str | None, Any], None]:
        """Return the answers to some inputs as a stream; see `Batcher.stream`."""
        return self.batcher.stream(work, inputs, self.limits.seconds)

    def close(self) -> None:
        """End the threads when everything that waits is answered."""
        self.batcher.close()
        self.explanations.close()


@dataclass(frozen=True)
class ModelName:
    """A model named on the command line: its folder, its name in requests, its languages and an adapter."""

    folder: str
    name: str
    languages: Languages | None
    adapter: str | None = None

    @classmethod
    def read(cls, text: str, languages: str = "") -> "ModelName":
        """Parse "DIR" or "NAME=DIR". Raise ConfigError if the name or the languages are malformed."""
        name, equals, folder = text.partition("=")
        if not equals or Path(text).exists():
            name, folder = Path(text).resolve().name, text
        if not re.fullmatch(r"[\w.@:+-]{1,100}", name):
            what = f"{name!r} can't be the name of a model"
            expected, fix = "letters, digits and any of . _ - + @ :", "give it a name: clearhead serve NAME=DIR"
            raise ConfigError(what, expected=expected, fix=fix, name="model", value=name)
        given = Languages.of(languages) if languages else None
        if languages and (given is None or f"{given.source}-{given.target}" != languages):
            what = f"--languages {languages!r} isn't a pair of languages"
            raise ConfigError(what, expected="a pair such as en-fr", name="languages")
        return cls(folder, name, Languages.of(name) or given)

    def with_adapter(self, adapter: "ModelName") -> "ModelName":
        """Return the name of this model with an adapter: "base+adapter"."""
        return ModelName(self.folder, f"{self.name}+{adapter.name}", self.languages, adapter.folder)


def with_adapters(models: Sequence[ModelName], adapters: Sequence[ModelName]) -> list[ModelName]:
    """Return models, and these models with adapters. Each adapter belongs to those with its base's weights.

    Raises:
        ModelError: a folder is no adapter, or none of the models is its base.
    """
    found = list(models)
    digests = {model: weights_digest(model_path(model.folder)) for model in models if adapters}
    for it in adapters:
        folder = Path(it.folder)
        base = expect_adapter(folder).base_weights
        fitting = [model for model in models if digests[model] == base]
        if not fitting:
            what = f"{folder} is an adapter of none of the served models"
            expected = f"a model whose weights have SHA-256 {base}"
            fix = "name its base: clearhead serve BASE --adapter DIR"
            raise ModelError(what, expected=expected, fix=fix, name="--adapter", value=it.folder)
        found += [model.with_adapter(it) for model in fitting]
    return found


Load = Callable[..., App]  # load(folder, adapter=folder), with None for no adapter


class ModelShelf:
    """All served models. `load` reads their folders; calling it again replaces them without losing a request."""

    def __init__(self, names: Sequence[ModelName], load: Load, limits: RequestLimits) -> None:
        if doubled := {it.name for it in names if sum(it.name == other.name for other in names) > 1}:
            what = f"two models are named {min(doubled)!r}"
            raise ConfigError(what, fix="give them names: clearhead serve NAME=DIR", name="model")
        self._names, self._load, self.limits = names, load, limits
        self.models: Mapping[str, ServedModel] = {}

    def load(self) -> None:
        """Read all models and answer with each once. If one can't be read, keep those that are loaded.

        Raises:
            ClearheadError: a model can't be read.
        """
        apps = {it: self._load(it.folder, adapter=it.adapter) for it in self._names}
        for app in apps.values():
            warm(app)
        old, self.models = self.models, {name.name: self._served(name, app) for name, app in apps.items()}
        for model in old.values():
            model.close()

    def reload(self) -> None:
        """Read all models again, and report errors instead of raising them."""
        try:
            self.load()
            say(f"reloaded {', '.join(self.models)}")
        except (ClearheadError, OSError, MemoryError, RuntimeError) as error:  # RuntimeError: torch has no memory
            say(f"error: {error}\n  the models that were loaded are still served")

    def _served(self, name: ModelName, app: App) -> ServedModel:
        batcher = Batcher(lambda work: open_group(app, work), most=self.limits.queue, name=name.name)
        explanations = open_explanations(app, most=self.limits.explanations, name=f"explanations of {name.name}")
        languages = name.languages if app.task.verb == "translate" else None
        return ServedModel(name.name, app, batcher, explanations, self.limits, languages, is_variant=bool(name.adapter))

    def close(self) -> None:
        """End all threads."""
        for model in self.models.values():
            model.close()

    def of_task(self, *verbs: str) -> list[ServedModel]:
        """Return the models of some tasks."""
        return [model for model in self.models.values() if model.verb in verbs]

    def translators(self) -> list[ServedModel]:
        """Return the translators to choose by their languages. One with an adapter has to be named."""
        return [model for model in self.of_task("translate") if not model.is_variant]

    def find(self, name: str | None, *verbs: str) -> ServedModel:
        """Return the model of a task, by its name or without a name if it's the only one without an adapter.

        Raises:
            RequestError: there's no such model, or several.
        """
        fitting = self.of_task(*verbs) if verbs else list(self.models.values())
        doing = " or ".join(f"`{verb}`" for verb in verbs)
        if name is not None:
            if name not in self.models:
                what, known, fix = f"there's no model {name!r}", ", ".join(self.models), suggestion(name, self.models)
                raise RequestError(404, what, expected=known, fix=fix, name="model", value=name)
            model = self.models[name]
            if model not in fitting:
                what = f"the model {name!r} is for `{model.verb}`"
                raise RequestError(400, what, expected=f"a model for {doing}", name="model", value=name)
            return model
        own = [model for model in fitting if not model.is_variant]
        if len(own) == 1:
            return own[0]
        if not fitting:
            known = ", ".join(f"{model.name} ({model.verb})" for model in self.models.values())
            fix = f"start the server with one; it serves {known}"
            raise RequestError(404, f"no model for {doing} is served", fix=fix, name="model")
        known = ", ".join(model.name for model in fitting)
        raise RequestError(400, "several models can answer this", expected=known, fix="name one as model", name="model")
