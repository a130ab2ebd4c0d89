"""BLEU as papers reported it before 2018: translations and references lower-cased and cut by the Moses tokenizer.

    M=$CLEARHEAD_DATA/multi30k
    python benchmarks/tokenised_bleu.py runs/multi30k $M/test_2016_flickr.en.gz $M/test_2016_flickr.de.gz --language de

It is printed beside today's cased BLEU with its signature, which needs no tokenizer of anybody's own.
"""

import argparse

import sacrebleu
from sacremoses import MosesTokenizer

import clearhead


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder")
    parser.add_argument("source", help="a sentence a line")
    parser.add_argument("reference", help="its translation")
    parser.add_argument("--language", required=True, help="of the translations, as Moses calls it: de")
    parser.add_argument("--beam", type=int, default=5)
    options = parser.parse_args()
    pairs = clearhead.read_pairs([options.source, options.reference])
    translations = clearhead.load(options.model)(pairs.sources, beam=options.beam)
    cased = sacrebleu.BLEU()
    print(f"| cased | {cased.corpus_score(translations, [pairs.targets]).score:.2f} | {cased.get_signature()} |")
    moses = MosesTokenizer(options.language)

    def cut(texts: list[str]) -> list[str]:
        return [moses.tokenize(text.lower(), escape=False, return_str=True) for text in texts]

    lower = sacrebleu.BLEU(tokenize="none", force=True)
    score = lower.corpus_score(cut(translations), [cut(pairs.targets)]).score
    print(f"| lower-cased, Moses | {score:.2f} | {lower.get_signature()} |")


if __name__ == "__main__":
    main()
