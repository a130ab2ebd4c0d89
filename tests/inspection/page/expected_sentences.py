"""What a page has to say about an answer, written once more: from the recorded attention, from the model's own logits,
and from runs with other token ids."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from clearhead.inspection.record.parts import stacks
from clearhead.inspection.record.switches import without
from clearhead.inspection.views.explanation import Explanation

NUMBER = re.compile(r"[−-]?\d+(?:\.\d+)?(?:e[−-]\d+)?")


def percent(p: Tensor | float) -> str:
    return ">99.99%" if p > 0.9999 else f"{100 * p:.4g}%"


def same(found: str, expected: str) -> None:
    """Compare two texts: numbers within their rounding, all else exactly."""
    one, other = (NUMBER.sub("#", it) for it in (found, expected))
    assert one == other
    numbers = ([float(it.replace("−", "-")) for it in NUMBER.findall(text)] for text in (found, expected))
    for shown, value in zip(*numbers):
        assert shown == pytest.approx(value, rel=6e-3, abs=6e-3 if abs(value) < 9 else 0), (found, expected)


def in_words(name: str) -> str:
    """The name of a position of the 4 x 4 patches of an image, or of a time, as the page writes it."""
    found = re.fullmatch(r"r(\d)c(\d)", name)
    if not found:
        return name.replace("s", " s")
    row, column = map(int, found.groups())
    corner = {0: ("top", "left"), 3: ("bottom", "right")}
    if row in corner and column in corner:
        return f"{corner[row][0]} {corner[column][1]}"
    return f"row {row + 1}, column {column + 1}"


@dataclass(frozen=True)
class Walk:
    """A page to walk through: a kind of model, and how it answers."""

    kind: str
    read: Any = None
    prefix: tuple[int, ...] = ()
    off: tuple[str, ...] = ()
    changed: tuple[tuple[str, Any], ...] = ()
    unknown: tuple[str, ...] = ()  # the words of what it reads that its vocabulary lacks

    def __str__(self) -> str:
        how = "-".join(
            {"prefix": "forced"}.get(name, name) for name in ("read", "prefix", "off", "changed") if getattr(self, name)
        )
        return f"{self.kind}-{how or 'plain'}"


class Truth:
    """What a page has to say about a model's answer, from its trace and from new runs."""

    digits = 2  # of a difference

    def __init__(self, walk: Walk, explanation: Explanation) -> None:
        self.walk, self.it, self.model, self.trace = walk, explanation, explanation.model, explanation.trace
        self.pieces = getattr(explanation.choice, "pieces", None) or explanation.forward.pieces["encoder"]
        self.special, self.off = explanation.config.model.special, set(walk.off)
        first = next(iter(explanation.tokens))
        read = self.trace[f"{first}.embedding"].inputs[0]
        self.read: Tensor = read
        self.media = not explanation.forward.reads_tokens
        self.seen = (
            list(map(in_words, explanation.tokens[first]))
            if self.media
            else self.named(self.read[0].tolist(), walk.unknown, explanation.forward.pieces[first])
        )
        self.hideable = self.seen
        with torch.inference_mode(), without(self.model, *walk.off):
            self.p = self.run(self.read)
            self.falls = (
                torch.zeros(0, 0)
                if self.media
                else torch.stack(
                    [self.said(self.p) - self.said(self.run(self.hiding(s))) for s in range(self.read.size(1))]
                )
            )
            if self.media and not explanation.without_weights:
                self.falls = torch.from_numpy(explanation.occlusion.falls.T).float()

    def named(self, ids: Sequence[int], unknown: Sequence[str] = (), pieces: Any = None) -> list[str]:
        """The names of tokens, of which the unknown ones were written so."""
        lacking, found = iter(unknown), list[str]()
        for i, piece in zip(ids, (pieces or self.pieces)(ids)):
            names = {self.special.eos: "the end", self.special.bos: "start", self.special.pad: "pad"}
            found.append(next(lacking, "‹unk›") if i == self.special.unk else names.get(i, piece.removeprefix("▁")))
        return found

    def hiding(self, s: int) -> Tensor:
        ids = self.read.clone()
        ids[0, s] = self.special.unk
        return ids

    def attention(self, name: str) -> Tensor | None:
        """The mean of the heads of a module that are on, or None if it's off."""
        weights = self.trace[name].weights.values[0].double()
        on = [h for h in range(len(weights)) if f"{name}.head.{h}" not in self.off]
        return weights[on].mean(0) if on and name not in self.off else None

    def bold(self, name: str) -> str:
        return name if name == "the end" else f"[{name}]"

    def hidden(self, t: int, named: str) -> str:
        if t >= self.falls.size(1):
            return ""
        s = int(self.falls[:, t].abs().argmax())
        fall = self.falls[s, t]
        what, way = named and f"the probability of {named}", "falls" if fall > 0 else "rises"
        left = self.shown(self.said(self.p)[t] - fall)
        hide = f"Hide {self.bold(self.hideable[s])} and {what or 'it'} {way} to {left}. "
        return hide if abs(fall) > 10**-self.digits else ""

    def shown(self, score: Tensor) -> str:
        return percent(score.exp())

    def ending(self) -> str:
        names, more = ", ".join(f"[{it}]" for it in self.walk.unknown[:3]), len(self.walk.unknown) - 3
        names += f" and {more} more" if more > 0 else ""
        lacking = f"The vocabulary lacks {names}; the model reads ‹unk› there. " if names else ""
        off = {0: "", 1: "One part of the model is switched off. "}
        return lacking + off.get(len(self.off), f"{len(self.off)} parts of the model are switched off. ")

    def sub(self, t: int) -> str:
        return f"{percent(self.said(self.p)[t].exp())} likely"

    def blocks(self, t: int) -> dict[str, list[str]]:
        """The blocks of the card, but for the contributions."""
        weights, found = self.looks(t), dict[str, list[str]]()
        if weights is not None:
            order = weights.argsort(descending=True, stable=True)[:3].tolist()
            found["Looked at"] = [it for s in order for it in (self.full(self.seen[s]), percent(weights[s]))]
        if t < self.falls.size(1):
            some = self.falls[:, t].abs().argsort(descending=True, stable=True)[:3].tolist()
            least = 0.5 * 10**-self.digits
            rows = [
                (self.full(self.hideable[s]), f"{-self.falls[s, t]:+.4f}")
                for s in some
                if abs(self.falls[s, t]) >= least
            ]
            found |= {"When hidden": [it for row in rows for it in row]} if rows else {}
        return found

    def full(self, name: str) -> str:
        return "■ end" if name == "the end" else name

    def looks(self, t: int) -> Tensor | None:
        return None

    def rank(self, t: int) -> str | None:
        return None


class Written(Truth):
    """A model that writes: a translation, a summary or a continuation."""

    def __init__(self, walk: Walk, explanation: Explanation) -> None:
        self.ids = torch.tensor(explanation.said)
        self.crosses = "encoder" in explanation.tokens
        layers = len(stacks(explanation.model)["decoder"].blocks)
        self.layer = layers - 2 if self.crosses and layers >= 3 else layers - 1
        self.count = explanation.searched.answers[0].length
        self.begins = len(self.ids) - self.count
        self.inputs = explanation.trace["decoder.embedding"].inputs[0]
        super().__init__(walk, explanation)
        if not self.crosses:
            self.falls = self.falls[: self.begins + 1]  # only the prompt is hidden
        self.names = [self.full(it) for it in self.named(self.ids[self.begins :].tolist())]
        decode, source = explanation.config.decode, self.read.size(1) - 1
        limit = (
            math.inf if decode.max_ratio is None or not self.crosses else max(1, math.floor(decode.max_ratio * source))
        )
        limit = max(limit, len(walk.prefix))
        self.how = [
            "forced" if t < len(walk.prefix) or t == limit else "sampled" if decode.sample else ""
            for t in range(self.count)
        ]

    def run(self, read: Tensor) -> Tensor:
        logits = self.model(read, self.inputs) if self.crosses else self.model(read)
        return logits[0].log_softmax(-1)

    def said(self, p: Tensor) -> Tensor:
        return p.gather(-1, self.ids[:, None])[self.begins :, 0]

    def looks(self, t: int) -> Tensor | None:
        name = f"decoder.{self.layer}.{'cross' if self.crosses else 'self'}"
        weights = self.attention(name)
        return None if weights is None else weights[self.begins + t][: None if self.crosses else self.begins + t + 1]

    def sentence(self, t: int) -> str:
        weights, name, p = self.looks(t), self.names[t], percent(self.said(self.p)[t].exp())
        where = f"cross-attention in layer {self.layer + 1}" if self.crosses else "attention in the last layer"
        ends, looked = name == "■ end", ""
        if weights is not None:
            seen = self.bold(self.seen[int(weights.argmax())])
            looked = f"looked most at {seen} ({percent(weights.max())} of its {where})"
        if self.how[t]:
            begin = f"{'The end' if ends else f'[{name}]'} was {self.how[t]}: the model gave it a probability of {p}"
            text = f"{begin}{looked and ' and '}{looked}. "
        else:
            text = f"{'To stop' if ends else f'To write [{name}]'}, the model {looked or f'was {p} sure'}. "
        text += self.hidden(t, "stopping" if ends else f"[{name}]") + self.others(t)
        text += "The answer is empty. " if self.names == ["■ end"] else ""
        text += "" if self.names[-1] == "■ end" else f"The answer was stopped at {self.count} tokens. "
        return text + self.ending()

    def others(self, t: int) -> str:
        p = self.p[self.begins + t]
        order = p.argsort(descending=True).tolist()
        (first, one), (second, two) = (
            (f"[{self.full(self.named([i])[0])}]", f"at {percent(p[i].exp())}") for i in order[:2]
        )
        rank = order.index(int(self.ids[self.begins + t]))
        if rank == 0:
            return f"Its second choice here was {second}, {two}. "
        return f"Its first choice here was {first}, {one}{f'; its second, {second}, {two}' if rank > 1 else ''}. "

    def sub(self, t: int) -> str:
        return super().sub(t) + (self.how[t] and f", {self.how[t]}")

    def blocks(self, t: int) -> dict[str, list[str]]:
        p, own = self.p[self.begins + t], int(self.ids[self.begins + t])
        others = [i for i in p.argsort(descending=True).tolist() if i != own][:3]
        named = [(self.full(self.named([i])[0]), percent(p[i].exp())) for i in others]
        return {"Alternatives": [it for row in named for it in row], **super().blocks(t)}

    def rank(self, t: int) -> str:
        decoder, at, own = stacks(self.model)["decoder"], self.begins + t, int(self.ids[self.begins + t])
        states = [
            self.trace["decoder.embedded"].output,
            *(self.trace[f"decoder.{n}"].output for n in range(len(decoder.blocks))),
        ]
        ranks = []
        with torch.inference_mode():
            for x in states:
                logits = decoder.projection(decoder.norm(x))[0, at]
                ranks.append(int((logits > logits[own]).sum()) + 1)
        return f"Rank {', then '.join(map(str, ranks))} of {self.p.size(-1)}"


class Labelled(Truth):
    """A model that gives a text, an image or a recording a label."""

    def __init__(self, walk: Walk, explanation: Explanation) -> None:
        self.labels = explanation.choice.labels
        super().__init__(walk, explanation)
        self.order = self.p.argsort(descending=True).tolist()
        self.names, self.count = [self.labels[i] for i in self.order], len(self.labels)
        if hasattr(explanation, "occlusion"):
            with without(self.model, *walk.off):
                each = [explanation.about(it).occlusion.falls for it in self.names]
            self.falls = torch.from_numpy(np.concatenate(each).T).float()

    def run(self, read: Tensor) -> Tensor:
        return self.model(read)[0].log_softmax(-1)

    def said(self, p: Tensor) -> Tensor:
        return p[self.p.argsort(descending=True)]

    def looks(self, t: int) -> Tensor | None:
        weights = self.attention("encoder.1.self") if self.media else None
        return None if weights is None else weights[0] if self.model.head.pooling == "first" else weights.mean(0)

    def sentence(self, t: int) -> str:
        p = [percent(it.exp()) for it in self.said(self.p)]
        hidden = self.hidden(t, f"[{self.names[t]}]")
        if t:
            which = f"[{self.names[t]}] was the model’s {['2nd', '3rd'][t - 1]} choice, with a probability of {p[t]}. "
            return f"{which}It answered [{self.names[0]}]. {hidden}{self.ending()}"
        text = f"The model answered [{self.names[0]}] with a probability of {p[0]}. {hidden}"
        return text + f"Its second choice was [{self.names[1]}], at {p[1]}. {self.ending()}"


class Several(Labelled):
    """A model that gives a text any number of labels: those with a probability of one half."""

    def run(self, read: Tensor) -> Tensor:
        return self.model(read)[0].sigmoid().log()

    def in_answer(self) -> list[str]:
        return [it for it, p in zip(self.names, self.said(self.p)) if p.exp() >= 0.5]

    def sentence(self, t: int) -> str:
        name, p, answer = self.names[t], percent(self.said(self.p)[t].exp()), self.in_answer()
        shown = "|".join(it.rpartition("=")[2] for it in answer) or "no label"
        text = f"[{name}] has a probability of {p}. It answered [{shown}]. "
        text = f"The model answered [{name}] with a probability of {p}. " if name in answer else text
        return text + self.hidden(t, f"[{name}]") + self.ending()

    def sub(self, t: int) -> str:
        return super().sub(t) + ", in the answer" * (self.names[t] in self.in_answer())


class OfTargets(Several):
    """A model that gives a text a label for each of several targets."""

    def run(self, read: Tensor) -> Tensor:
        logits, names = self.model(read)[0], [it.split("=")[0] for it in self.labels]
        return torch.stack(
            [it - logits[[name == own for own in names]].logsumexp(0) for it, name in zip(logits, names)]
        )

    def in_answer(self) -> list[str]:
        first = {name.split("=")[0]: name for name in reversed(self.names)}
        return [first[name] for name in dict.fromkeys(it.split("=")[0] for it in self.labels)]


class Predicted(Labelled):
    """A model that predicts a number."""

    def __init__(self, walk: Walk, explanation: Explanation) -> None:
        super().__init__(walk, explanation)
        self.names = [explanation.answer]
        self.digits = 2 - math.floor(math.log10(float(self.falls.abs().max())))

    def run(self, read: Tensor) -> Tensor:
        mean, deviation = self.it.config.data.number_scale
        return self.model(read)[0] * deviation + mean

    def shown(self, score: Tensor) -> str:
        return f"{score:.6g}"

    def sentence(self, t: int) -> str:
        return f"The model predicted [{self.names[0]}] for {self.labels[0]}. {self.hidden(0, '')}{self.ending()}"

    def sub(self, t: int) -> str:
        return self.labels[0]


class Filled(Truth):
    """A model that fills masks."""

    def __init__(self, walk: Walk, explanation: Explanation) -> None:
        self.at = torch.tensor([[it == explanation.choice.tokenizer.mask_name for it in explanation.tokens["encoder"]]])
        super().__init__(walk, explanation)
        self.seen = ["[MASK]" if masked else name for name, masked in zip(self.seen, self.at[0].tolist())]
        self.count, self.names = (
            int(self.at.sum()),
            [self.full(it) for it in self.named([it[0] for it in self.best(self.p)])],
        )

    def best(self, p: Tensor) -> list[list[int]]:
        """The tokens that may fill each mask, likeliest first."""
        allowed = p.clone()
        allowed[:, sorted(self.special.ids)] = -math.inf
        return allowed.argsort(descending=True).tolist()

    def run(self, read: Tensor) -> Tensor:
        return self.model(read, at=self.at).log_softmax(-1)

    def said(self, p: Tensor) -> Tensor:
        return p.gather(-1, torch.tensor([it[:1] for it in self.best(self.p)]))[:, 0]

    def sentence(self, t: int) -> str:
        p, second = self.said(self.p)[t], self.best(self.p)[t][1]
        text = f"In place of mask {t + 1}, the model put [{self.names[t]}] with a probability of {percent(p.exp())}. "
        text += self.hidden(t, f"[{self.names[t]}]")
        text += f"Its second choice here was [{self.named([second])[0]}], at {percent(self.p[t, second].exp())}. "
        return text + self.ending()

    def blocks(self, t: int) -> dict[str, list[str]]:
        some = self.best(self.p)[t][1:4]
        named = [(self.named([i])[0], percent(self.p[t, i].exp())) for i in some]
        return {"Alternatives": [it for row in named for it in row], **super().blocks(t)}


class Found(Truth):
    """A model that finds an answer in a text."""

    count = 1

    def __init__(self, walk: Walk, explanation: Explanation) -> None:
        ids = explanation.trace["encoder.embedding"].inputs[0]
        ends = ids == explanation.config.model.special.eos
        self.of_text = (ends.cumsum(1) > 0) & ~ends
        types = explanation.trace.parts.get("encoder.types")
        self.types, self.span = None if types is None else types[-1].inputs[-1], explanation.span or (0, 0)
        super().__init__(walk, explanation)
        self.names = [explanation.answer or "no answer"]

    def run(self, read: Tensor) -> Tensor:
        return self.model(read, self.types, at=self.of_text)[0].log_softmax(0)

    def said(self, p: Tensor) -> Tensor:
        return (p[self.span[0], 0] + p[self.span[1], 1])[None]

    def sentence(self, t: int) -> str:
        found = f"[{self.it.answer}]" if self.it.answer else "no answer"
        p = percent(self.said(self.p)[0].exp())
        text = f"The model found {found} in the text, with a probability of {p}. "
        return text + self.hidden(0, "this answer") + self.ending()

    def answer(self, first: int, last: int) -> str:
        """What the page says about an answer from one position to another; position 0 is that of no answer."""
        scores, at = self.trace["head"].output[0], self.it.in_context
        p, own = scores.log_softmax(0), self.span
        name = self.it.context[at[first][0] : at[last][1]] if first else "no answer"
        score, best = (float(scores[a, 0] + scores[b, 1] - scores[0].sum()) for a, b in ((first, last), own))
        less = f", {best - score:.2f} below that of the model’s answer" if best > score else ""
        chances = (p[first, 0], p[last, 1], p[first, 0] + p[last, 1])
        start, end, both = (percent(it.exp()) for it in chances)
        text = (
            f"{name}: the answer starts here with a probability of {start} and ends here with {end}, together {both}. "
        )
        own_said = "; this is the model’s answer" if (first, last) == own else less
        return f"{text}The score is {'+' * (score > 0)}{score:.2f}{own_said}."


class Embedded(Truth):
    """A model that gives a vector."""

    count, names = 0, ()

    def run(self, read: Tensor) -> Tensor:
        return torch.zeros(1)

    def said(self, p: Tensor) -> Tensor:
        return p

    def sentence(self, t: int) -> str:
        return f"The model read this and gave a vector. {self.ending()}"


TRUTHS = {
    "classify": Labelled,
    "several": Several,
    "targets": OfTargets,
    "number": Predicted,
    "image": Labelled,
    "audio": Labelled,
    "fill": Filled,
    "answer": Found,
    "embed": Embedded,
}
