"""Downloads of OPUS-MT (Tiedemann and Thottingal 2020): Marian's weights, vocabularies and SentencePiece models."""

from pathlib import Path

from ...errors import ModelError
from ..hf_tokenizers import checked_ids
from ..huggingface import CONFIG, family, read_parts
from ..imported import Imported
from ..sentencepiece_models import convert_sides
from .marian_options import Options, count, factor, layer_settings, parse_options, read_options, read_vocabulary
from .npz_weights import OPTIONS, NpzWeights, read_npz

_DECODER, _EOS, _UNK, _PAD = "decoder.yml", "</s>", "<unk>", "<pad>"
_LONGEST_ANSWER = 512  # tokens, as in OPUS-MT's folders for Transformers


def is_opus_folder(folder: Path) -> bool:
    """Return whether a folder has weights in Marian's form, and no model of Transformers."""
    return any(folder.glob("*.npz")) and not (folder / CONFIG).is_file()


def read_opus_folder(folder: Path, task: str | None = None) -> Imported:
    """Read the model of a folder.

    Args:
        folder: a folder such as OPUS-MT's zip files contain.
        task: the task to use the model for (default: translate).

    Raises:
        ConfigError: the SentencePiece library isn't installed.
        ModelError: a file is missing or damaged, or the model has something that isn't supported.
    """
    decoder = read_options(folder / _DECODER)
    (path, *others), vocabularies = (_files(folder, decoder, name) for name in ("models", "vocabs"))
    arrays = read_npz(path)
    settings = layer_settings(path, parse_options(path, arrays[OPTIONS].tobytes().rstrip(b"\0")))
    weights = NpzWeights(path, arrays, {stack: settings[f"{stack}_layers"] for stack in ("encoder", "decoder")})
    source, target = (_ids(vocabularies[i], weights.shape(table)[0], path) for i, table in zip((0, -1), weights.tables))
    if any(source[name] != target[name] for name in (_EOS, _UNK, _PAD)):
        what = f"{vocabularies[0]} and {vocabularies[-1].name} differ in their special tokens or in size"
        raise ModelError(what, expected=f"the same ids of {_EOS} and {_UNK}, and as many tokens", name="vocabs")
    settings |= {"vocab_size": len(source), "decoder_vocab_size": len(target)}
    settings["share_encoder_decoder_embeddings"] = weights.tables[0] == weights.tables[1]
    settings["tie_word_embeddings"] = "lm_head.weight" not in weights.names()
    settings |= {"eos_token_id": target[_EOS], "pad_token_id": target[_PAD], "decoder_start_token_id": target[_PAD]}
    settings |= {"num_beams": count(folder / _DECODER, decoder, "beam-size"), "max_length": _LONGEST_ANSWER}
    settings["length_penalty"] = factor(folder / _DECODER, decoder, "normalize")
    settings["bad_words_ids"] = [[target[_PAD]]]
    tokenizer = convert_sides(folder, source, target)
    imported = read_parts(family("marian"), path, settings, weights, tokenizer, task)
    if penalty := factor(folder / _DECODER, decoder, "word-penalty"):
        imported.notes.append(f"word-penalty={penalty:g} in {_DECODER} has no counterpart, so answers can differ")
    imported.notes.extend(f"{it.name}, which {_DECODER} lists too, isn't read" for it in others)
    return imported


def _files(folder: Path, decoder: Options, name: str) -> list[Path]:
    """Return the files that decoder.yml lists under a name."""
    listed = decoder.get(name, [])
    names = [listed] if isinstance(listed, str) else listed
    if not names or any(Path(it).name != it for it in names):
        what = f"{folder / _DECODER} has {name}={names}"
        raise ModelError(what, expected="the names of files in this folder", name=name, value=names)
    return [folder / it for it in names]


def _ids(path: Path, rows: int, model: Path) -> dict[str, int]:
    """Return the ids of a vocabulary's tokens, and after them that of padding, the decoder's first input."""
    found = read_vocabulary(path)
    if missing := [name for name in (_EOS, _UNK) if name not in found]:
        raise ModelError(f"{path} has no {missing[0]}", expected="a vocabulary of Marian", name=path.name)
    ids = checked_ids(path, found | {_PAD: len(found)})
    if len(ids) != rows:
        what = f"{path} has {len(found):,} tokens, but {model.name} has embeddings for {rows - 1:,}"
        raise ModelError(what, expected="the vocabulary of this model", name=path.name, value=len(found))
    return ids
