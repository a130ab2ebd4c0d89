def beam_search(log_probs, beam, max_len, end, alpha=0.6):
    def score(total, length):
        return total / ((5 + length) / 6) ** alpha

    beams, finished = [((), 0.0)], []
    for length in range(1, max_len + 1):
        longer = []
        for tokens, total in beams:
            for token, log_prob in enumerate(log_probs(tokens).tolist()):
                longer.append(((*tokens, token), total + log_prob))
        longer.sort(key=lambda it: it[1], reverse=True)
        beams = []
        for tokens, total in longer[:beam]:
            if tokens[-1] == end:
                finished.append((list(tokens[:-1]), score(total, length)))
            else:
                beams.append((tokens, total))
        if not beams:
            break
    finished += [(list(tokens), score(total, max_len)) for tokens, total in beams]
    finished.sort(key=lambda it: it[1], reverse=True)
    return finished[:beam]
