"""Print the decoder's mask: a token sees itself and earlier tokens (section 3.2.3).

python causal_mask.py
"""

from clearhead.model.masks import causal_mask


def main() -> None:
    mask = causal_mask(4)
    print(f"causal_mask(4) has the shape {tuple(mask.shape)}; 1 may be attended to, 0 may not:\n")
    print("          " + " ".join(f"key {n}" for n in range(4)))
    for query, row in enumerate(mask[0, 0].tolist()):
        print(f"query {query}   " + "     ".join(str(int(seen)) for seen in row))
    print()
    for query, row in enumerate(mask[0, 0].tolist()):
        seen = [str(key) for key, may in enumerate(row) if may]
        print(f"token {query} sees {', '.join(seen)}")


if __name__ == "__main__":
    main()
