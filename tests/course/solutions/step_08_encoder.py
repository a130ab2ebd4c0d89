import math

from step_04_many_heads import multi_head
from step_05_positions import positional_encoding
from step_06_add_and_norm import add_and_norm
from step_07_feed_forward import feed_forward


def embed(ids, table):
    tokens, width = len(ids), table.size(1)
    return table[ids] * math.sqrt(width) + positional_encoding(tokens, width)


def encoder_layer(x, w, mask=None):
    x = add_and_norm(x, lambda x: multi_head(x, x, *w.self_attention, w.n_heads, mask), *w.norm_1)
    return add_and_norm(x, lambda x: feed_forward(x, *w.feed_forward), *w.norm_2)


def encoder(ids, table, layers, mask=None):
    x = embed(ids, table)
    for w in layers:
        x = encoder_layer(x, w, mask)
    return x
