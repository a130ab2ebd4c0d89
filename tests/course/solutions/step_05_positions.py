import torch


def positional_encoding(n, d_model):
    positions = torch.arange(n)[:, None]
    pairs = torch.arange(d_model // 2)
    angles = positions / 10_000 ** (2 * pairs / d_model)
    table = torch.zeros(n, d_model)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()
    return table
