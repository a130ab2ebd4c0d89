"""Compute BLEU as papers reported it before 2018: on lower-cased text, tokenized by Moses.

    M=$CLEARHEAD_DATA/multi30k
    python benchmarks/tokenised_bleu.py runs/multi30k $M/test_2016_flickr.en.gz $M/test_2016_flickr.de.gz --language de

The script also prints cased BLEU as reported today, with its sacrebleu signature. It needs the package `sacremoses`.
"""

import argparse

import sacrebleu
from sacremoses import MosesTokenizer

import clearhead


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model folder")
    parser.add_argument("source", help="source file, one sentence per line")
    parser.add_argument("reference", help="reference file, aligned with the source")
    parser.add_argument("--language", required=True, help="language code of the translations for Moses, such as de")
    parser.add_argument("--beam", type=int, default=5)
    options = parser.parse_args()
    pairs = clearhead.read_pairs([options.source, options.reference])
    translations = clearhead.load(options.model)(pairs.sources, beam=options.beam)
    cased = sacrebleu.BLEU()
    print(f"| cased | {cased.corpus_score(translations, [pairs.targets]).score:.2f} | {cased.get_signature()} |")
    moses = MosesTokenizer(options.language)

    def tokenize(texts: list[str]) -> list[str]:
        return [moses.tokenize(text.lower(), escape=False, return_str=True) for text in texts]

    lower = sacrebleu.BLEU(tokenize="none", force=True)
    score = lower.corpus_score(tokenize(translations), [tokenize(pairs.targets)]).score
    print(f"| lower-cased, Moses | {score:.2f} | {lower.get_signature()} |")


if __name__ == "__main__":
    main()
