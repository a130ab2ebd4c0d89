"""What families of encoder-decoders have in common: special tokens, and settings for generating text."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...config import Config
from .family import Family
from .hf_config import HfConfig


class EncoderDecoderFamily(Family):
    """Base class of families of encoder-decoders."""

    without_effect: ClassVar[Sequence[str]] = (
        "is_encoder_decoder",
        "is_decoder",
        "init_std",
        "classifier_dropout",
        "num_hidden_layers",
    )
    special: ClassVar[Mapping[str, int | None]]
    """The default id of each special token. None means that of `decoder_start` or, for that one, `pad`."""
    derived: ClassVar[Sequence[str]] = (
        *("model.pad_id", "model.bos_id", "model.eos_id", "model.start_id"),
        *("model.tgt_vocab_size", "model.embedding_scale", "model.projection_bias"),
    )

    @property
    def tasks(self) -> Sequence[str]:
        return ("translate", "summarize")

    def tasks_of(self, task: str) -> Sequence[str]:
        return self.tasks

    def more(self, hf_config: HfConfig, found: Mapping[str, Any], tokens: Mapping[str, int]) -> dict[str, Any]:
        ids = {
            role: hf_config.generating(f"{role}_token_id", hf_config.roles.get(role, default))
            for role, default in self.special.items()
        }
        start = ids["pad"] if ids["decoder_start"] is None else ids["decoder_start"]
        for name in ("forced_bos_token_id", "force_bos_token_to_be_generated"):
            if hf_config.generating(name, False) is not False:
                fix = "delete it from config.json and generation_config.json; the model then chooses its first token"
                raise hf_config.unsupported(name, fix=f"{fix} itself")
        return {
            "model.pad_id": ids["pad"],
            "model.eos_id": ids["eos"],
            "model.bos_id": start if ids["bos"] is None else ids["bos"],
            "model.start_id": start,
            "model.unk_id": tokens.get("<unk>"),
            "model.mask_id": tokens.get("<mask>"),
        }

    def their_config(self, config: Config) -> dict[str, Any]:
        model = config.model
        return {
            "is_encoder_decoder": True,
            "pad_token_id": model.pad_id,
            "bos_token_id": model.bos_id,
            "eos_token_id": model.eos_id,
            "decoder_start_token_id": model.special.start,
        }

    def architecture(self, config: Config) -> str:
        """Return the class that the weights are exported for: the same for translations, summaries and others."""
        return next(iter(self.architectures))
