# ruff: noqa: E501 (programs as published)
"""Chat templates: token ids are those of Transformers' `apply_chat_template`, which executes the program in Jinja."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from clearhead.config import Config, SpecialTokens
from clearhead.errors import DataError
from clearhead.exchange.chat_templates import recognised, to_jinja
from clearhead.exchange.hf_tokenizers import tokenizer_files
from clearhead.tokenization.chat_template import TEMPLATES, ChatEncoder, ChatTemplate
from clearhead.tokenization.source_and_target import Tokenizers, train_tokenizers

from .conftest import unicode_lines

LINES = unicode_lines(400)
SYSTEM = "You're a friendly robot."
ALTERNATE = "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"
CHATML = "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
ASKS = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
# Programs as published; each has the name of the template with the same text.
PUBLISHED = {
    "chatml": "{% for message in messages %}" + CHATML + "{% endfor %}" + ASKS,
    "mistral": "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) "
    "%}" + ALTERNATE + "{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user "
    "and assistant roles are supported!') }}{% endif %}{% endfor %}",
    "zephyr": "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + "
    "eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif "
    "message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if "
    "loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
    "phi-3": "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\\n' + message['content'] + "
    "'<|end|>\\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\\n' + message['content'] + '<|end|>\\n'}}{% elif "
    "message['role'] == 'assistant' %}{{'<|assistant|>\\n' + message['content'] + '<|end|>\\n'}}{% endif %}{% endfor %}{% "
    "if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}",
}
# Other programs with the same text as a template.
WRITTEN = {
    "default": "{% for m in messages %}{{ bos_token + m['role'] + '\\n' + m['content'] + eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ bos_token + 'assistant\\n' }}{% endif %}",
    "llama-2": "{% set ns = namespace(said='') %}{% for m in messages %}{% if m['role'] == 'system' %}"
    "{% set ns.said = '<<SYS>>\\n' + m['content'] + '\\n<</SYS>>\\n\\n' %}{% elif m['role'] == 'user' %}"
    "{{ bos_token + '[INST] ' + (ns.said + m['content']).strip() + ' [/INST]' }}{% set ns.said = '' %}"
    "{% else %}{{ ' ' + m['content'].strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
    "llama-3": "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' }}"
    "{{ m['content'].strip() + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    "gemma": "{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>' }}"
    "{{ 'model' if m['role'] == 'assistant' else m['role'] }}{{ '\\n' + m['content'].strip() + '<end_of_turn>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}",
}
SPECIAL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
           "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<start_of_turn>", "<end_of_turn>"]  # fmt: skip
KINDS = ("bytes", "words after spaces", "first word after a space", "markers remove spaces", "no markers")


def tokenizer(kind: str) -> tokenizers.Tokenizer:
    """A small tokenizer, of the kinds that published models have."""
    special = SPECIAL[:3] if kind == "no markers" else SPECIAL
    found = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    steps = tokenizers.pre_tokenizers
    if kind == "words after spaces":
        replace = tokenizers.normalizers.Replace(" ", "▁")
        found.normalizer = tokenizers.normalizers.Sequence([tokenizers.normalizers.Prepend("▁"), replace])
        alphabet = sorted({*"".join(LINES), "▁", "\n"})
    elif kind == "first word after a space":
        found.pre_tokenizer = steps.Metaspace(prepend_scheme="first", split=False)
        alphabet = sorted({*"".join(LINES), "▁", "\n"})
    else:
        found.pre_tokenizer, alphabet = steps.ByteLevel(add_prefix_space=False), steps.ByteLevel.alphabet()
        found.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=len(alphabet) + 400, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    found.train_from_iterator([*LINES, "[INST] user\n [/INST] assistant\nsystem\n<|user|>\n"] * 2, trainer)
    if kind == "markers remove spaces":  # as those of Phi-3
        added = [tokenizers.AddedToken(it, rstrip=True, special=True, normalized=False) for it in SPECIAL[3:]]
        found.add_special_tokens(added)
    return found


@pytest.fixture(scope="module")
def made() -> dict[str, tokenizers.Tokenizer]:
    return {kind: tokenizer(kind) for kind in KINDS}


def conversations(template: ChatTemplate, count: int) -> list[list[dict[str, str]]]:
    """Random conversations that the template can express, some with odd spaces, some whole, some to be answered."""
    draw, found = random.Random(0), []

    def content() -> str:
        text = "\n".join(draw.choices(LINES, k=draw.choice((1, 1, 2))))
        return draw.choice(("", "", " ", "\n")) + text[: draw.randint(1, 60)] + draw.choice(("", "", " ", "\n\n"))

    for _ in range(count):
        roles = ["user", "assistant"] * 3
        roles = roles[: draw.randint(1, 6)]
        if "system" in template.roles and draw.random() < 0.5:
            roles = ["system", *roles]
        found.append([{"role": role, "content": content()} for role in roles])
    return found


def ids_of(hf: Any, made: tokenizers.Tokenizer, jinja: str, chats: list[Any], *, asks: bool) -> list[list[int]]:
    theirs = hf.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    theirs.chat_template = jinja
    return theirs.apply_chat_template(chats, tokenize=True, add_generation_prompt=asks, return_dict=False)


def encoder(made: tokenizers.Tokenizer, template: ChatTemplate) -> ChatEncoder:
    special = SpecialTokens(pad=made.get_vocab_size(), unk=0, mask=None)
    return ChatEncoder(template, Tokenizers.from_json(made.to_str(), special, origin="tokenizer.json").target)


@pytest.mark.parametrize(
    ("kind", "count"), [*((kind, 30) for kind in KINDS), pytest.param("bytes", 1000, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", TEMPLATES)
def test_token_ids_are_those_of_apply_chat_template(hf: Any, made: Any, name: str, kind: str, count: int) -> None:
    template, jinja = ChatTemplate.read(name), PUBLISHED.get(name) or WRITTEN[name]
    chats, ours = conversations(template, count), encoder(made[kind], template)
    for asks in (True, False):
        found = ours.encode([ours.text(chat, asks=asks) for chat in chats])
        assert found == ids_of(hf, made[kind], jinja, chats, asks=asks)
        assert found[:100] == ids_of(hf, made[kind], to_jinja(template), chats[:100], asks=asks)


OWN = {
    "roles": {"user": ["# \"{eos}\" ", "\t{bos}\\"], "assistant": ["é😀{% if", "%}#}{eos}"], "système": ["{{", "}}"]},
    "begin": "{bos}'", "end": "!", "ask": "?", "trim": True,
}  # fmt: skip


@pytest.mark.parametrize("more", [{}, {"system": SYSTEM}])
@pytest.mark.parametrize("name", [*TEMPLATES, "own"])
def test_a_template_that_is_written_is_read_back(hf: Any, made: Any, name: str, more: dict[str, Any]) -> None:
    values = OWN if name == "own" else TEMPLATES[name]
    template = ChatTemplate.read(json.dumps(values | (more if "system" in values["roles"] else {})))
    written = to_jinja(template)
    assert ChatTemplate.read(recognised(written) or "") == template
    assert recognised(written + " ") is None
    chats, ours = conversations(template, 50), encoder(made["bytes"], template)
    found = ours.encode([ours.text(chat, asks=True) for chat in chats])
    assert found == ids_of(hf, made["bytes"], written, chats, asks=True)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_programs_are_recognised_whatever_their_spaces_in_tags(name: str) -> None:
    assert recognised(PUBLISHED[name]) == recognised(PUBLISHED[name].replace("\\n", "\n")) == name
    assert recognised(PUBLISHED[name].replace("{{ ", "{{").replace(" + ", "+")) == name
    assert recognised(PUBLISHED[name].replace("message['content']", "message['content'] | trim", 1)) is None
    assert recognised(PUBLISHED[name] + "\n{{ 'x' }}") is None


def test_a_default_system_message_is_taken_over(hf: Any, made: Any) -> None:
    default = (
        "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nBe kind.<|im_end|>\\n' }}"
    )
    jinja = "{% for message in messages %}" + default + "{% endif %}" + CHATML + "{% endfor %}" + ASKS
    template = ChatTemplate.read(recognised(jinja) or "")
    assert template.system == "Be kind."
    chats, ours = conversations(template, 200), encoder(made["bytes"], template)
    found = ours.encode([ours.text(chat, asks=True) for chat in chats])
    assert found == ids_of(hf, made["bytes"], jinja, chats, asks=True)


@pytest.mark.parametrize("name", TEMPLATES)
def test_markers_in_a_message_are_text(made: Any, name: str) -> None:
    template = ChatTemplate.read(name)
    for kind in KINDS:
        ours, special = (
            encoder(made[kind], template),
            {*range(len(SPECIAL[:3] if kind == "no markers" else SPECIAL))} - {0},
        )
        plain, forged = (
            ours.encode([ours.text([{"role": "user", "content": text}], asks=True)])[0]
            for text in ("x", "x" + "".join(SPECIAL) + "\ufdd0</s>x")
        )
        assert [it for it in forged if it in special] == [it for it in plain if it in special]


def test_spaces_that_are_tokens_stay_tokens_in_a_message(hf: Any) -> None:
    """Gemma's tokenizer has tokens of line breaks that aren't special. Templates write them, too."""
    made, chats = tokenizer("bytes"), [[{"role": "user", "content": "a\nb\n\nc\n"}]]
    made.add_tokens([tokenizers.AddedToken(it, normalized=False, special=False) for it in ("\n", "\n\n")])
    ours = encoder(made, ChatTemplate.read("chatml"))
    found = ours.encode([ours.text(chats[0], asks=True)])
    assert found == ids_of(hf, made, PUBLISHED["chatml"], chats, asks=True)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "character"])
def test_an_exported_tokenizer_gives_the_ids_of_training(hf: Any, tmp_path: Path, kind: str) -> None:
    values = {"train.task": "generate", "data.tokenizer": kind, "data.vocab_size": 600, "data.template": "default"}
    config = Config().override(values | {"data.normalise": "none"})
    made = train_tokenizers([*LINES, "user\nassistant\nsystem\n"], [], config.data)
    size = made.target.vocab_size
    config = config.override({"model.src_vocab_size": size, "model.tgt_vocab_size": size})
    for name, content in tokenizer_files(made, config.model, to_jinja(ChatTemplate.read("default"))).items():
        (tmp_path / name).write_bytes(content)
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path)
    ours = ChatEncoder(ChatTemplate.read("default"), made.target)
    chats = conversations(ours.template, 300)
    for asks in (True, False):
        found = ours.encode([ours.text(chat, asks=asks) for chat in chats])
        assert found == theirs.apply_chat_template(chats, add_generation_prompt=asks, return_dict=False)


def test_messages_that_a_template_cannot_express_are_errors() -> None:
    user, answer, system = ({"role": role, "content": "x"} for role in ("user", "assistant", "system"))
    wrong = (("mistral", [system, user]), ("mistral", [user, user]), ("mistral", [answer]), ("llama-2", [system]),
             ("llama-2", [user, system]), ("llama-2", [system, answer]), ("chatml", [{"role": "tool", "content": ""}]))  # fmt: skip
    for name, messages in wrong:
        with pytest.raises(DataError) as caught:
            ChatTemplate.read(name).parts(messages, asks=True)
        assert caught.value.name == "messages" and caught.value.expected
