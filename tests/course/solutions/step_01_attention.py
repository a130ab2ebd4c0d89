import math


def softmax(x):
    powers = (x - x.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def attention(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
    weights = softmax(scores)
    return weights @ v, weights
