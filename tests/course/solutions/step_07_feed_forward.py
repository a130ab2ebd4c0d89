def feed_forward(x, w_1, b_1, w_2, b_2):
    inner = (x @ w_1 + b_1).clamp(min=0)
    return inner @ w_2 + b_2
