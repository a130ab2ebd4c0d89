def layer_norm(x, gain, bias, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred**2).mean(-1, keepdim=True)
    return centred / (variance + eps).sqrt() * gain + bias


def add_and_norm(x, sublayer, gain, bias):
    return layer_norm(x + sublayer(x), gain, bias)
