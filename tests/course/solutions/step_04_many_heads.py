from step_01_attention import attention
from step_02_mask import masked_attention


def split_heads(x, n_heads):
    tokens, width = x.shape
    return x.view(tokens, n_heads, width // n_heads).transpose(0, 1)


def merge_heads(x):
    heads, tokens, width = x.shape
    return x.transpose(0, 1).reshape(tokens, heads * width)


def multi_head(x, memory, w_q, w_k, w_v, w_o, n_heads, mask=None):
    q, k, v = split_heads(x @ w_q, n_heads), split_heads(memory @ w_k, n_heads), split_heads(memory @ w_v, n_heads)
    output = attention(q, k, v)[0] if mask is None else masked_attention(q, k, v, mask)[0]
    return merge_heads(output) @ w_o
