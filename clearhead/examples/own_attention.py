"""Two custom attentions: one keeps the promises of attention, the other leaks the future.

python own_attention.py

trains a small model with each to sort digits, which takes a few seconds, and lets it sort. In the folder of this file,
use the first one in any model:

clearhead train pairs.tsv --model.attention=own_attention:LinearAttention --out runs/linear
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import clearhead
from clearhead.config import TrainConfig
from clearhead.model.dropout import dropout as drop
from clearhead.model.masks import padding_mask
from clearhead.model.transformer import EncoderDecoder
from clearhead.training.optimizers import make_optimizer

PAD, START, END, ZERO = 0, 1, 2, 3  # ZERO is the token of the digit 0
LONGEST = 8  # digits to sort


class LinearAttention(nn.Module):
    """Softmax compares a query and a key by exp(q k). This attention uses phi(q) phi(k) with phi(x) = elu(x) + 1, which
    is never negative (Katharopoulos et al. 2020). It's called linear because the sums over the keys can be computed
    before any query is known. This code doesn't do that: it's shorter, and works with any mask.

    It keeps the promises of every attention:
    - a query uses nothing of a key whose mask is False: padding, or the future
    - queries are independent, so one per step, with a cache, gives the same result as all at once
    - the position bias counts: here as a factor, because softmax has exp(s + bias) = exp(s) exp(bias)
    - there may be fewer key-value heads than query heads
    """

    def __init__(self, dropout: float) -> None:  # the only argument it asks for
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v, *, mask=None, bias=None):  # (B, H, T, K), (B, G, S, K) twice -> (B, H, T, K)
        """Return the output for each query.

        Args:
            q: queries of H heads.
            k: keys of G heads, each shared by H / G heads of queries.
            v: values, one for each key.
            mask: True where a query may attend to a key, broadcast to (B, H, T, S) (default: everywhere).
            bias: the position bias, broadcast to (B, H, T, S) (default: none).
        """
        weights = drop(self.weights(q, k, mask=mask, bias=bias), self.dropout if self.training else 0.0)
        return weights.to(v.dtype) @ v.repeat_interleave(q.size(1) // v.size(1), 1)

    def weights(self, q, k, *, mask=None, bias=None):  # (B, H, T, K), (B, G, S, K) -> (B, H, T, S)
        """Return the weights, for `explain` and for the pointer. Without this method there are neither.

        Args:
            q: queries of H heads.
            k: keys of G heads.
            mask: True where a query may attend to a key.
            bias: the position bias.
        """
        k = k.repeat_interleave(q.size(1) // k.size(1), 1)
        likeness = (F.elu(q) + 1) @ (F.elu(k) + 1).mT
        if bias is not None:
            likeness = likeness * bias.exp()
        if mask is not None:
            likeness = likeness * mask  # before the sum, which must not include it either
        return likeness / likeness.sum(-1, keepdim=True).clamp(min=1e-6)  # all zeros if nothing may be attended to


class LeakyAttention(nn.Module):
    """The same with sums over all keys, ignoring mask and bias. A decoder trained with it reads the next token instead
    of predicting it: the loss looks fine until it has to write."""

    def forward(self, q, k, v, *, mask=None, bias=None):  # (B, H, T, K), (B, G, S, K) twice -> (B, H, T, K)
        """Return the output for each query.

        Args:
            q: queries.
            k: keys.
            v: values, one for each key.
            mask: ignored, which is the mistake.
            bias: ignored, too.
        """
        groups = q.size(1) // k.size(1)
        q, k = F.elu(q) + 1, (F.elu(k) + 1).repeat_interleave(groups, 1)
        return q @ (k.mT @ v.repeat_interleave(groups, 1)) / (q @ k.sum(-2)[..., None])


def lists(n: int) -> tuple[Tensor, Tensor]:
    """Return random digits, and the same digits sorted between START and END: (B, S), (B, S + 2)."""
    length = torch.randint(2, LONGEST + 1, (n, 1))
    digits = torch.randint(ZERO, ZERO + 10, (n, LONGEST)).masked_fill(torch.arange(LONGEST) >= length, ZERO + 10)
    target = torch.cat([torch.full((n, 1), START), digits.sort(-1).values, torch.full((n, 1), ZERO + 10)], 1)
    target.scatter_(1, length + 1, END)
    return tuple(it.masked_fill(it == ZERO + 10, PAD) for it in (digits, target))


def train(attention: str, steps: int) -> tuple[EncoderDecoder, float]:
    """Train a small model with the named attention; return it with its last loss in nats per token."""
    torch.manual_seed(0)
    shape = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_encoder_layers": 1, "n_decoder_layers": 2, "dropout": 0.0}
    net = clearhead.build(
        clearhead.ModelConfig(src_vocab_size=13, tgt_vocab_size=13, pre_norm=True, attention=attention, **shape)
    )
    optimizer = make_optimizer(net, TrainConfig(optimizer="muon"))
    for step in range(steps):
        source, target = lists(32)
        logits = net(source, target[:, :-1], source_mask=padding_mask(source, PAD))
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * min(1, (step + 1) / 20, 2 * (1 - step / steps))
        optimizer.step()
    return net.eval(), float(loss.detach())


@torch.inference_mode()
def write(net: EncoderDecoder, source: Tensor) -> Tensor:
    """Decode greedily with a cache: (B, S) -> (B, S + 1)."""
    mask = padding_mask(source, PAD)
    cache = net.decoder.new_cache(len(source), LONGEST + 1, net.encode(source, mask=mask))
    said = [torch.full((len(source), 1), START)]
    for _ in range(LONGEST + 1):
        said.append(net.decoder(said[-1], memory_mask=mask, cache=cache)[:, -1:].argmax(-1))
    return torch.cat(said[1:], 1)


def main(steps: int = 150, n: int = 200) -> None:
    for kind in (LinearAttention, LeakyAttention):
        net, loss = train(f"{__name__}:{kind.__name__}", steps)
        source, target = lists(n)
        said = write(net, source).masked_fill(target[:, 1:] == PAD, PAD)
        right = (said == target[:, 1:]).all(1).float().mean()
        print(f"{kind.__name__:<16} loss {loss:.3f}, {right:.0%} of {n} lists sorted correctly; the first:")
        digits = [" ".join(str(int(it) - ZERO) for it in row if it >= ZERO) for row in (source[0], said[0])]
        print(f"                 {digits[0]} -> {digits[1]}")


if __name__ == "__main__":
    main()
