import torch
from step_02_mask import causal_mask
from step_04_many_heads import multi_head
from step_06_add_and_norm import add_and_norm
from step_07_feed_forward import feed_forward


def decoder_layer(x, memory, w, cache=None):
    past = [] if cache is None else cache.setdefault("inputs", [])
    past.append(x)
    seen = torch.cat(past)
    mask = causal_mask(len(seen))[-len(x) :]
    x = add_and_norm(x, lambda x: multi_head(x, seen, *w.self_attention, w.n_heads, mask), *w.norm_1)
    x = add_and_norm(x, lambda x: multi_head(x, memory, *w.cross_attention, w.n_heads), *w.norm_2)
    return add_and_norm(x, lambda x: feed_forward(x, *w.feed_forward), *w.norm_3)
