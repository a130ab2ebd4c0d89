from step_01_attention import attention
from step_02_mask import masked_attention


def head(x, memory, w_q, w_k, w_v, mask=None):
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v
    if mask is None:
        return attention(q, k, v)[0]
    return masked_attention(q, k, v, mask)[0]
