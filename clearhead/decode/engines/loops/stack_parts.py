"""Numbers of the parts of a stack. Each block has those up to OUTER_BIAS; the others exist once, in block 0."""

(
    QKV, QKV_BIAS, OUT, OUT_BIAS, CROSS_Q, CROSS_Q_BIAS, CROSS_KV, CROSS_KV_BIAS, CROSS_OUT, CROSS_OUT_BIAS,
    INNER, INNER_BIAS, OUTER, OUTER_BIAS, NORM_1, NORM_2, NORM_3,
    EMBEDDING, POSITIONS, EMBEDDING_NORM, FINAL_NORM, PROJECTION, PROJECTION_BIAS, NEAR, SLOPES,
) = range(25)  # fmt: skip
