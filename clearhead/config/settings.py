"""All settings in one place: four frozen dataclasses, TOML files, and dotted overrides such as `train.steps=300`.

A setting whose default is None is chosen before the first step, from the data and the machine, written to the model
folder, and reused on resume; everything else is what it says here.
"""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from ..errors import ConfigError, did_you_mean
from .values import read_duration, read_toml, read_value

T = TypeVar("T")


SEPARATORS = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}  # what a shell makes hard to write, by name
NEWEST = "newest"  # of train.best: no score chooses
DROPOUT = ("model.dropout", "model.attention_dropout", "model.activation_dropout")


def setting(default: T, help: str) -> T:
    """A dataclass field with the sentence that `--help` and the documents print for it."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of a Transformer (sections 3 and 6.2 of the paper); `build` turns it into a model."""

    topology: Literal["encoder-decoder", "decoder-only", "encoder-only"] = setting(
        "encoder-decoder", "which stacks of Figure 1 there are"
    )
    src_vocab_size: int = setting(0, "tokens of the source language; 0 until the tokenizer is known")
    tgt_vocab_size: int = setting(0, "tokens of the target language; 0 until the tokenizer is known")
    front: str = setting(
        "tokens", "how inputs become the embeddings that an encoder reads: tokens or package.module:Class"
    )
    d_model: int = setting(512, "width of the residual stream")
    n_heads: int = setting(8, "attention heads; d_model is divided among them")
    n_kv_heads: int | None = setting(None, "heads of keys and values, fewer than n_heads for grouped queries")
    d_ff: int = setting(2048, "inner width of the feed-forward sub-layer")
    n_encoder_layers: int = setting(6, "blocks of the encoder")
    n_decoder_layers: int = setting(6, "blocks of the decoder")
    dropout: float = setting(0.1, "section 5.4: probability of dropping what an embedding or a sub-layer gives")
    attention_dropout: float | None = setting(None, "of dropping attention weights; left out: as model.dropout")
    activation_dropout: float | None = setting(
        None, "of dropping inside the feed-forward network; left out: as model.dropout"
    )
    attention: str = setting(
        "softmax", "how queries, keys and values become an output: softmax, Equation 1, or package.module:Class"
    )
    positions: str = setting(
        "sinusoidal",
        "how the model knows the order of its tokens: sinusoidal, learned, rotary, relative, alibi, or "
        "package.module:Class",
    )
    max_len: int = setting(5000, "longest sequence that is read")
    norm: str = setting("layer", "kind of normalisation: layer, rms, or package.module:Class")
    norm_eps: float = setting(1e-5, "what is added to the variance inside the root")
    pre_norm: bool = setting(False, "normalise before each sub-layer instead of after (the paper: after)")
    activation: Literal["relu", "gelu", "swiglu"] = setting("relu", "of the feed-forward sub-layer (the paper: relu)")
    feed_forward: str | None = setting(
        None, "feed-forward sub-layer: relu, gelu, swiglu or package.module:Class (default: model.activation)"
    )
    bias: bool = setting(True, "biases in the linear layers")
    tie: Literal["all", "target", "none"] = setting(
        "all", "which matrices are one: source, target and projection; target and projection; or none"
    )
    copy: bool = setting(False, "a pointer that copies tokens of the source; needs one vocabulary for both languages")
    head: Literal["none", "class", "span", "token"] = setting(
        "none", "on top of an encoder-only model: classes of a text, a passage of it, its hidden tokens, or nothing"
    )
    n_classes: int = setting(0, "classes of the head that tells them apart; 0 until the labels are known")
    pooling: Literal["mean", "first"] = setting(
        "mean", "what that head reads of a text: the mean of its tokens, or the first one"
    )
    n_token_types: int = setting(
        0, "types of tokens with a learned vector each, such as question and text, of an encoder-only model; 0: none"
    )

    def __post_init__(self) -> None:
        """Refuse what cannot be built, before anything is."""
        positive = ("d_model", "n_heads", "d_ff", "max_len")
        for name in positive:
            _require(getattr(self, name) >= 1, f"model.{name}", getattr(self, name), "at least 1")
        for name in ("src_vocab_size", "tgt_vocab_size", "n_classes", "n_token_types"):
            _require(getattr(self, name) >= 0, f"model.{name}", getattr(self, name), "at least 0")
        for name, without in (("n_encoder_layers", "decoder-only"), ("n_decoder_layers", "encoder-only")):
            fewest = 0 if self.topology == without else 1
            _require(getattr(self, name) >= fewest, f"model.{name}", getattr(self, name), f"at least {fewest}")
        for name in DROPOUT:
            value = getattr(self, name.split(".")[1])
            _require(value is None or 0 <= value < 1, name, value, "at least 0 and below 1")
        _require(self.norm_eps > 0, "model.norm_eps", self.norm_eps, "above 0")
        divisor = "a divisor of model.d_model"
        _require(self.d_model % self.n_heads == 0, "model.n_heads", self.n_heads, f"{divisor} = {self.d_model}")
        if self.n_kv_heads is not None:
            fits = self.n_kv_heads >= 1 and self.n_heads % self.n_kv_heads == 0
            _require(fits, "model.n_kv_heads", self.n_kv_heads, f"a divisor of model.n_heads = {self.n_heads}")
        if self.positions == "rotary":
            width = self.d_model // self.n_heads
            _require(width % 2 == 0, "model.positions", "rotary", f"an even head width (here it is {width})")
        if self.tie == "all" and self.topology == "encoder-decoder" and self.front == "tokens":
            same = self.src_vocab_size == self.tgt_vocab_size
            sizes = f"{self.src_vocab_size} and {self.tgt_vocab_size}"
            _require(same, "model.tie", "all", f"one vocabulary for both sides (they have {sizes}); or tie = 'target'")
        self._require_what_fits_the_topology()

    def _require_what_fits_the_topology(self) -> None:
        tokens = self.front == "tokens" or not self.copy
        _require(tokens, "model.copy", self.copy, "false unless model.front = 'tokens'")
        copies = self.topology == "encoder-decoder" and self.src_vocab_size == self.tgt_vocab_size
        joint = "false unless model.topology = 'encoder-decoder' with one vocabulary for both sides"
        _require(copies or not self.copy, "model.copy", self.copy, joint)
        of_tasks = (("head", "none", "'classify' or 'answer'"), ("n_token_types", 0, "'answer'"))
        for name, without, tasks in of_tasks:  # a task that nobody names is found only later
            value = getattr(self, name)
            fits = self.topology == "encoder-only" or value == without
            alone = f"{without!r} unless model.topology = 'encoder-only', which train.task = {tasks} brings"
            _require(fits, f"model.{name}", value, alone)
        of_classes = self.head == "class" or not self.n_classes
        _require(of_classes, "model.n_classes", self.n_classes, "0 unless model.head = 'class'")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which files are read, how their text becomes tokens, and how tokens become batches."""

    train: tuple[str, ...] = setting(
        (), "the training file or folder of files, or two that are line-aligned; - for standard input"
    )
    valid: tuple[str, ...] = setting(
        (), "files to choose the best checkpoint on; otherwise a split of the training data"
    )
    test: tuple[str, ...] = setting((), "files to score once, after training")
    texts: tuple[str, ...] = setting(
        (), "files of text that train.warm_start learns from, too: each line, or JSON lines with a text each"
    )
    source_column: str = setting("", "its name, its JSON key, or its number from 1; left out: found by looking")
    target_column: str = setting("", "likewise of the target")
    separator: str = setting(
        "", "between columns: one character, or tab, comma, semicolon, pipe; left out: found by looking"
    )
    reverse: bool = setting(False, "exchange source and target of the file")
    store: str = setting("", "folder where tokens are kept for later runs; left out: they are kept for this run alone")
    split: float = setting(
        0.02, "share of the distinct sources held out where `valid` names no file; 10,000 sources at most"
    )
    tokenizer: Literal["bpe", "unigram", "word", "character"] = setting("bpe", "how text is cut into tokens")
    vocab_size: int | None = setting(None, "most tokens of a vocabulary, special ones included")
    joint: bool = setting(True, "one vocabulary for both languages")
    subword_dropout: float = setting(
        0.0, "probability of passing over a merge of bpe in training, so that words are cut anew each epoch"
    )
    unicode: Literal["NFC", "NFKC", "none"] = setting("NFC", "Unicode form that text is brought to")
    whitespace: bool = setting(True, "fold runs of white space to one space and strip the ends")
    lowercase: bool = setting(False, "lower-case everything")
    max_len: int = setting(
        250, "most tokens a side of a pair, a text or a block; what is longer is left out or cut, counted and shown"
    )
    batch_tokens: int | None = setting(None, "most tokens a side in a batch, padding included")
    batch_sentences: int | None = setting(
        None, "most pairs, texts or blocks in a batch; left out: as many as its tokens allow"
    )
    unanswerable: bool = setting(
        False, "of questions about texts: whether some have no answer there, from the training data"
    )
    labels: tuple[str, ...] = setting((), "of texts with labels: all that there are, from the training data")
    name: str = setting("", "what the data is called, for the model card")
    source: str = setting("", "where the data comes from, for the model card")
    licence: str = setting("", "the data's licence, for the model card")

    def __post_init__(self) -> None:
        """Refuse what cannot be read."""
        fits = self.separator in ("", *SEPARATORS) or (len(self.separator) == 1 and self.separator not in '"\r\n')
        names = ", ".join(SEPARATORS)
        _require(fits, "data.separator", repr(self.separator), f"one character other than a quote, or {names}")
        _require(0 <= self.split < 1, "data.split", self.split, "at least 0 and below 1")
        if self.vocab_size is not None:
            _require(
                self.vocab_size >= 5, "data.vocab_size", self.vocab_size, "at least 5 (4 special tokens and one more)"
            )
        _require(self.max_len >= 1, "data.max_len", self.max_len, "at least 1")
        _require(0 <= self.subword_dropout < 1, "data.subword_dropout", self.subword_dropout, "at least 0 and below 1")
        merges = self.tokenizer == "bpe" or not self.subword_dropout
        _require(merges, "data.subword_dropout", self.subword_dropout, "0, or data.tokenizer = 'bpe', which has merges")
        most = self.batch_sentences is None or self.batch_sentences >= 1
        _require(most, "data.batch_sentences", self.batch_sentences, "at least 1")
        if self.batch_tokens is not None:
            longest = self.max_len + 1  # with the end-of-sentence token
            expected = f"at least data.max_len + 1 = {longest}"
            _require(self.batch_tokens >= longest, "data.batch_tokens", self.batch_tokens, expected)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How the weights are found (section 5 of the paper)."""

    task: Literal["translate", "generate", "classify", "answer", "summarize"] | None = setting(
        None, "what is learnt; left out: found by looking at the data"
    )
    preset: str | None = setting(None, "the shape to start from, by name; left out: by the size of the data")
    budget: str = setting("", "time from start to end, such as 15m or 1h30m: it chooses the preset and the steps")
    init_from: str = setting("", "a trained model whose weights and tokenizer training begins with")
    warm_start: Literal["", "denoise"] = setting(
        "",
        "denoise: learn first from the texts alone, a part of which is hidden, and say what that is good for; "
        "of a language model from data.texts, too, token by token",
    )
    warm_steps: int | None = setting(
        None, "updates of the weights in that; left out: as many as in what follows, for labels three times as many"
    )
    hidden_span: float | None = setting(
        None, "how many tokens are hidden together in that, in the mean, 1: each for itself; left out: 3, of labels 1"
    )
    soup: int | None = setting(
        None,
        "what follows a warm start is learnt so often, with other dropout and in another order, and the mean of the "
        "weights is kept (Wortsman et al. 2022); left out: once, labels without a budget four times",
    )
    steps: int | None = setting(None, "updates of the weights")
    epochs: float | None = setting(None, "the same as passes over the data, instead of steps")
    seed: int = setting(0, "of the initial weights, the order of the data and dropout")
    optimizer: Literal["adam", "adamw", "muon"] | None = setting(
        None, "section 5.3: adam; muon moves matrices as such and needs fewer tokens"
    )
    lr: float | None = setting(None, "peak learning rate; left out: by width and warm-up, a fifth of it with init_from")
    beta1: float = setting(0.9, "Adam's decay of the mean of the gradient")
    beta2: float = setting(0.98, "Adam's decay of its square")
    eps: float = setting(1e-9, "Adam's epsilon")
    weight_decay: float = setting(0.0, "decoupled decay of matrices, with muon (those of the blocks) and adamw")
    schedule: Literal["paper", "cosine", "linear", "constant"] | None = setting(
        None, "of the learning rate, after the warm-up"
    )
    lr_end: float = setting(0.0, "learning rate at the last step, with cosine and linear")
    warmup: int | None = setting(None, "steps of linear warm-up; left out: by preset and steps")
    accumulate: int = setting(1, "batches whose gradients make one step")
    label_smoothing: float = setting(0.1, "section 5.4")
    balance: bool = setting(False, "the rarer a label, the more each of its texts counts, so that all weigh the same")
    r_drop: float = setting(
        0.0, "R-Drop (Liang et al. 2021): a text is read twice, with other dropout, and labels are to agree; 0: once"
    )
    clip: float = setting(1.0, "largest norm of the gradient; 0: none")
    precision: Literal["auto", "fp32", "bf16"] = setting("auto", "auto: bf16 where products are faster in it")
    device: str = setting("auto", "auto, cpu, cuda or cuda:1")
    threads: int | None = setting(
        None, "processor threads; left out: OMP_NUM_THREADS, or every core this process may use"
    )
    eval_every: int | None = setting(None, "steps between evaluations")
    eval_sentences: int = setting(500, "most validation sentences, or texts, that an evaluation scores")
    best: str = setting(
        "loss", "what weights are chosen by, on the validation split: loss or another score of the task; newest: none"
    )
    patience: int = setting(0, "evaluations without a better score after which training ends early; 0: it does not")
    average: int = setting(0, "newest checkpoints whose mean is tried as the weights that are kept; 0: none")
    ema: float = setting(0.0, "decay of the moving average of the weights that is scored and kept instead; 0: none")
    save_every: int | None = setting(None, "steps between checkpoints")
    keep: int = setting(2, "newest checkpoints that are kept")
    log_every: int = setting(20, "steps between lines of the metrics")
    watch: str = setting("", "a text that is looked at in each evaluation, for `explain --film`; nothing: none")
    tensorboard: bool = setting(False, "write what TensorBoard shows to the folder's tensorboard/ (needs that package)")

    @property
    def begins_trained(self) -> bool:
        """Whether the weights are not random before the first step."""
        return bool(self.init_from or self.warm_start)

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        counts = (
            "steps",
            "warm_steps",
            "soup",
            "eval_every",
            "save_every",
            "keep",
            "log_every",
            "eval_sentences",
            "threads",
            "accumulate",
        )
        if self.budget:
            read_duration(self.budget)
        if self.preset is not None:
            preset(self.preset)  # refuses a name that there is not
        for name in counts:
            value = getattr(self, name)
            _require(value is None or value >= 1, f"train.{name}", value, "at least 1")
        _require(self.epochs is None or self.epochs > 0, "train.epochs", self.epochs, "above 0")
        _require(self.warmup is None or self.warmup >= 0, "train.warmup", self.warmup, "at least 0")
        _require(self.lr is None or self.lr > 0, "train.lr", self.lr, "above 0")
        _require(self.lr_end >= 0, "train.lr_end", self.lr_end, "at least 0")
        below = self.lr is None or self.lr_end <= self.lr
        _require(below, "train.lr_end", self.lr_end, f"at most train.lr = {self.lr}")
        falls = not self.lr_end or self.schedule not in ("paper", "constant")
        _require(falls, "train.lr_end", self.lr_end, f"0 with train.schedule = {self.schedule}, or cosine or linear")
        _require(self.eps > 0, "train.eps", self.eps, "above 0")
        long_enough = self.hidden_span is None or self.hidden_span >= 1
        _require(long_enough, "train.hidden_span", self.hidden_span, "at least 1")
        for name in ("beta1", "beta2", "label_smoothing", "ema"):
            _require(0 <= getattr(self, name) < 1, f"train.{name}", getattr(self, name), "at least 0 and below 1")
        one_mean = not (self.ema and self.average)
        _require(one_mean, "train.average", self.average, "0 beside train.ema, which is an average already")
        _require(self.seed < 2**63, "train.seed", self.seed, "below 2^63")
        decays = not self.weight_decay or self.optimizer != "adam"
        _require(decays, "train.weight_decay", self.weight_decay, "0 with adam, or optimizer = 'adamw' or 'muon'")
        for name in ("clip", "weight_decay", "seed", "average", "patience", "r_drop"):
            _require(getattr(self, name) >= 0, f"train.{name}", getattr(self, name), "at least 0")


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """How a translation is searched for (section 6.1)."""

    engine: str = setting("auto", "decoding engine; auto: the first one that can run the model")
    beam: int = setting(4, "hypotheses kept; 1: greedy")
    alpha: float = setting(0.6, "length penalty ((5 + length) / 6)^alpha that a log-probability is divided by")
    n_best: int = setting(1, "answers given for each text, best first; as many as the beam at most")
    diverse: bool = setting(False, "each of the n_best answers begins with another token")
    max_extra: int = setting(50, "longest output: this many tokens more than the source, its end included")
    max_len: int | None = setting(None, "longest output, in tokens")
    min_len: int = setting(0, "shortest output, in tokens")
    max_ratio: float | None = setting(None, "longest output, in tokens for each token of the source")
    min_ratio: float = setting(0.0, "shortest output, in tokens for each token of the source")
    no_repeat_ngram: int = setting(0, "no n-gram of this length is repeated in an output; 0: it may be")
    repetition_penalty: float = setting(
        1.0, "what the log-probability of a token that the output has already is multiplied by"
    )
    suppress: tuple[str, ...] = setting((), "tokens that are never generated, as `translate --json` writes them")
    sample: bool = setting(False, "draw tokens by their probability instead of searching for the best")
    temperature: float = setting(1.0, "of sampling: below 1 likely tokens become likelier, above 1 less so")
    top_k: int = setting(0, "of sampling: only this many of the likeliest tokens are drawn; 0: all")
    top_p: float = setting(1.0, "of sampling: only the likeliest tokens are drawn whose probabilities reach this sum")
    min_p: float = setting(0.0, "of sampling: only tokens at least so likely, relative to the likeliest, are drawn")
    unknown: Literal["error", "unk"] = setting(
        "error", "what a prompt with characters that the model never saw is: refused, or read with <unk> for them"
    )
    seed: int = setting(0, "of sampling: the same seed and text give the same answer")
    batch_tokens: int = setting(4096, "most tokens decoded together, sources times beams, padding included")

    def __post_init__(self) -> None:
        """Refuse what cannot be searched."""
        for name in ("beam", "n_best", "max_extra", "batch_tokens", "repetition_penalty"):
            _require(getattr(self, name) >= 1, f"decode.{name}", getattr(self, name), "at least 1")
        for name in ("alpha", "min_len", "min_ratio", "no_repeat_ngram", "top_k", "seed"):
            _require(getattr(self, name) >= 0, f"decode.{name}", getattr(self, name), "at least 0")
        fits = self.sample or self.n_best <= self.beam
        _require(fits, "decode.n_best", self.n_best, f"at most decode.beam = {self.beam} where nothing is sampled")
        _require(not (self.sample and self.diverse), "decode.diverse", True, "decode.sample = false beside it")
        for name, most in (("alpha", 100), ("repetition_penalty", 1000)):  # what is more overflows
            _require(getattr(self, name) <= most, f"decode.{name}", getattr(self, name), f"at most {most}")
        _require(self.temperature > 0, "decode.temperature", self.temperature, "above 0")
        _require(0 < self.top_p <= 1, "decode.top_p", self.top_p, "above 0 and at most 1")
        _require(0 <= self.min_p <= 1, "decode.min_p", self.min_p, "at least 0 and at most 1")
        longest = self.max_len is None or self.max_len >= max(self.min_len, 1)
        _require(longest, "decode.max_len", self.max_len, f"at least 1 and decode.min_len = {self.min_len}")
        widest = self.max_ratio is None or (self.max_ratio >= self.min_ratio and self.max_ratio > 0)
        _require(
            widest, "decode.max_ratio", self.max_ratio, f"above 0 and at least decode.min_ratio = {self.min_ratio}"
        )


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that decides a run: what `config.json` in a model folder holds."""

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    given: frozenset[str] = field(default=frozenset(), compare=False, repr=False)  # the names that `override` was told

    def __post_init__(self) -> None:
        """Refuse what makes no sense together."""
        joint = self.data.joint or not self.model.copy
        _require(joint, "model.copy", self.model.copy, "false without data.joint = true")

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Nested plain values, as JSON and TOML hold them."""
        return {section: dataclasses.asdict(getattr(self, section)) for section in _SECTIONS}

    def value(self, name: str) -> Any:
        """The value of a setting by its dotted name."""
        section, key = name.split(".")
        return getattr(getattr(self, section), key)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, origin: str = "the configuration") -> Self:
        """The inverse of `to_dict`; unknown names and values of a wrong type are a ConfigError that names `origin`."""
        flat: dict[str, Any] = {}
        for section, settings in values.items():
            if section not in _SECTIONS:
                raise ConfigError(f"{origin} has an unknown section [{section}]{did_you_mean(section, _SECTIONS)}")
            if not isinstance(settings, Mapping):
                raise ConfigError(
                    f"{origin}: {section} = {settings!r} is no section; expected [{section}] with settings below it"
                )
            flat |= {f"{section}.{name}": value for name, value in settings.items()}
        return cls().override(flat, origin=origin)

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a TOML file with the sections [model], [data], [train] and [decode], each optional."""
        return cls.from_dict(read_toml(path), origin=str(path))

    def to_toml(self) -> str:
        """The text of a TOML file that `from_toml` reads back to the same settings; None is left out.

        What a preset brings is a comment, so that a reader of the file takes it for the preset's and nobody's wish.
        """
        import tomli_w

        of_preset = PRESETS.get(self.train.preset or "", {})
        tables = []
        for section, values in self.to_dict().items():
            rows = [f"[{section}]"]
            for name, value in values.items():
                if value is not None:
                    brought = of_preset.get(f"{section}.{name}") == value
                    rows.append(f"{'# ' * brought}{tomli_w.dumps({name: value}).rstrip()}")
            tables.append("\n".join(rows) + "\n")
        return "\n".join(tables)

    def override(self, values: Mapping[str, Any], *, origin: str = "the command line") -> Self:
        """The same with some settings replaced: {"train.steps": 300}; a string is read as the setting's type.

        A task among them brings the stacks and the head that it has, {"train.task": "generate"} a decoder alone.
        A preset among them, {"train.preset": "nano"}, brings its values, below those that are given beside it; what is
        beside it as the preset has it is the preset's, too: `override(preset("nano"))` is the same as its name.
        """
        known, brought = settings(), self._of_task(values)
        if isinstance(name := values.get("train.preset"), str) and name != "none":
            brought |= {key: value for key, value in preset(name).items() if key != "train.preset"}
        given = self.given | {key for key, value in values.items() if key not in brought or brought[key] != value}
        values = brought | dict(values)
        sections: dict[str, dict[str, Any]] = {}
        for dotted, value in values.items():
            if dotted not in known:
                raise ConfigError(f"{origin} names an unknown setting {dotted!r}{did_you_mean(dotted, known)}")
            section, name = dotted.split(".")
            sections.setdefault(section, {})[name] = read_value(value, known[dotted].type, f"{origin}: {dotted}")
        changed = {section: replace(getattr(self, section), **new) for section, new in sections.items()}
        return replace(self, **changed, given=given)

    def _of_task(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What a task among `values` brings; nothing where other stacks are given, which whoever trains refuses."""
        own = TASKS.get(str(values.get("train.task")), {})
        told = {name: values.get(name, self.value(name)) for name in own if name in values or name in self.given}
        return {} if any(own[name] != value for name, value in told.items()) else dict(own)


@dataclass(frozen=True)
class Setting:
    """One setting as the command line and the documents describe it."""

    name: str
    type: Any
    default: Any
    help: str


_SECTIONS: dict[str, type[Any]] = {
    "model": ModelConfig,
    "data": DataConfig,
    "train": TrainConfig,
    "decode": DecodeConfig,
}


def settings() -> dict[str, Setting]:
    """Every setting by its dotted name, in the order of the sections."""
    found = {}
    for section, kind in _SECTIONS.items():
        types_ = typing.get_type_hints(kind)
        for f in dataclasses.fields(kind):
            name = f"{section}.{f.name}"
            found[name] = Setting(name, types_[f.name], f.default, f.metadata["help"])
    return found


# The stacks of each task, and the head on top of them.
TASKS: dict[str, dict[str, Any]] = {
    "translate": {"model.topology": "encoder-decoder"},
    "generate": {"model.topology": "decoder-only"},
    "classify": {"model.topology": "encoder-only", "model.head": "class"},
    "answer": {"model.topology": "encoder-only", "model.head": "span"},
    "summarize": {"model.topology": "encoder-decoder"},
}

SHAPE = ("model.d_model", "model.n_heads", "model.d_ff", "model.n_encoder_layers", "model.n_decoder_layers")

# Section 6.2, table 3, and smaller ones. Warm-up: measured for the small ones.
PRESETS: dict[str, dict[str, Any]] = {
    name: {
        "model.d_model": d_model,
        "model.n_heads": n_heads,
        "model.d_ff": d_ff,
        "model.n_encoder_layers": n_layers,
        "model.n_decoder_layers": n_layers,
        "model.dropout": dropout,
        "train.warmup": warmup,
    }
    for name, d_model, n_heads, d_ff, n_layers, dropout, warmup in (
        ("nano", 128, 4, 256, 2, 0.1, 600),
        ("mini", 256, 4, 512, 3, 0.1, 300),
        ("tiny", 128, 4, 256, 4, 0.3, 2000),
        ("small", 256, 4, 1024, 4, 0.1, 1000),
        ("base", 512, 8, 2048, 6, 0.1, 4000),
        ("big", 1024, 16, 4096, 6, 0.3, 4000),
    )
}


def preset(name: str) -> dict[str, Any]:
    """The overrides that a preset stands for; an unknown name is a ConfigError."""
    if name not in PRESETS:
        raise ConfigError(f"unknown preset {name!r}; there are {', '.join(PRESETS)}{did_you_mean(name, PRESETS)}")
    return PRESETS[name] | {"train.preset": name}


def chosen(value: T | None) -> T:
    """A setting that was open (None) until something chose it, which has happened by the time that it is read."""
    assert value is not None, "a choice was left open"
    return value


def _require(holds: bool, name: str, value: Any, expected: str) -> None:
    if not holds:
        raise ConfigError(f"{name} = {value} cannot be used; expected {expected}")
