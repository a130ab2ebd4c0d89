"""Two attentions of one's own, and what tells them apart: one keeps the promises of its place, the other does not.

python examples/own_attention.py

trains a small model with each to sort digits, which takes some seconds, and lets it sort. In the folder of this file
the same attention stands in any model:

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
from clearhead.training.optimizer import make_optimizer

PAD, START, END, ZERO = 0, 1, 2, 3  # ZERO is the token of the digit 0
LONGEST = 8  # digits that are to be sorted


class LinearAttention(nn.Module):
    """Softmax takes exp(q k) as the likeness of a query and a key. Here it is phi(q) phi(k), with phi(x) = elu(x) + 1,
    which is never negative (Katharopoulos et al. 2020). It is called linear because the sums over the keys can be taken
    before any query is known; here they are not, since a mask may be of any form, and the code is shorter so.

    What it promises, as every attention in this place has to:
    - a query takes nothing of a key where the mask is False: of padding, of the future
    - a query knows nothing of other queries, so that one a step, with a cache, is as good as all at once
    - what a position scheme adds to scores counts: here it is a factor, as in softmax, exp(s + bias) = exp(s) exp(bias)
    - there may be fewer heads of keys and values than of queries
    """

    def __init__(self, dropout: float) -> None:  # of what is offered it asks for this alone
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v, *, mask=None, bias=None):  # (B, H, T, K), (B, G, S, K) twice -> (B, H, T, K)
        weights = drop(self.weights(q, k, mask=mask, bias=bias), self.dropout if self.training else 0.0)
        return weights.to(v.dtype) @ v.repeat_interleave(q.size(1) // v.size(1), 1)

    def weights(self, q, k, *, mask=None, bias=None):  # (B, H, T, K), (B, G, S, K) -> (B, H, T, S)
        """What can be looked at, and what a pointer copies by; without this method there is neither."""
        k = k.repeat_interleave(q.size(1) // k.size(1), 1)
        likeness = (F.elu(q) + 1) @ (F.elu(k) + 1).mT
        if bias is not None:
            likeness = likeness * bias.exp()
        if mask is not None:
            likeness = likeness * mask  # before the sum, which is not to have it, either
        return likeness / likeness.sum(-1, keepdim=True).clamp(min=1e-6)  # all zeros where nothing may be attended


class LeakyAttention(nn.Module):
    """The same with the sums taken first, of all keys there are: the mask, the bias and the future are forgotten. A
    decoder that is trained so reads the next token instead of guessing it: its loss is fine, until it has to write."""

    def forward(self, q, k, v, *, mask=None, bias=None):  # (B, H, T, K), (B, G, S, K) twice -> (B, H, T, K)
        groups = q.size(1) // k.size(1)
        q, k = F.elu(q) + 1, (F.elu(k) + 1).repeat_interleave(groups, 1)
        return q @ (k.mT @ v.repeat_interleave(groups, 1)) / (q @ k.sum(-2)[..., None])


def lists(n: int) -> tuple[Tensor, Tensor]:
    """Digits as they come, and sorted between START and END. -> (B, S), (B, S + 2)"""
    length = torch.randint(2, LONGEST + 1, (n, 1))
    digits = torch.randint(ZERO, ZERO + 10, (n, LONGEST)).masked_fill(torch.arange(LONGEST) >= length, ZERO + 10)
    target = torch.cat([torch.full((n, 1), START), digits.sort(-1).values, torch.full((n, 1), ZERO + 10)], 1)
    target.scatter_(1, length + 1, END)
    return tuple(it.masked_fill(it == ZERO + 10, PAD) for it in (digits, target))


def train(attention: str, steps: int) -> tuple[EncoderDecoder, float]:
    """A small model with an attention by its name, and its last loss in nats a token."""
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
    """What it says, token by token with a cache. (B, S) -> (B, S + 1)"""
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
        print(f"{kind.__name__:<16} loss {loss:.3f}, {right:.0%} of {n} lists sorted right; the first:")
        digits = [" ".join(str(int(it) - ZERO) for it in row if it >= ZERO) for row in (source[0], said[0])]
        print(f"                 {digits[0]} -> {digits[1]}")


if __name__ == "__main__":
    main()
