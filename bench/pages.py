#!/usr/bin/env python3
"""Pages with questions, as many as wanted, for timing whole jobs: `banyan ask pages.jsonl -o …`.

The text is the shipped model's own generated kind (train/documents.py), of about the length of a SQuAD2 page. The same
arguments give the same pages.
"""

import argparse
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from eval.sets import ask_record  # noqa: E402
from train.lexicon import HELD, Lexicon  # noqa: E402
from train.questions import haystack  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=6000)
    parser.add_argument("--tokens", type=int, default=180, help="of a page, about")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    lexicon = Lexicon(random.Random(f"pages {options.seed}"), HELD)
    questions = 0
    with open(options.output, "w", encoding="utf-8") as out:
        for number in range(options.pages):
            branches = []
            while not branches:
                sample = haystack(lexicon, options.tokens)
                branches = [b for b in sample.branches if not b.choices][:6]
            record = ask_record(f"page{number}", sample.context, branches)
            questions += len(record["questions"])
            out.write(json.dumps(record, ensure_ascii=False) + "\n")
    print(f"{options.output}: {options.pages} pages, {questions} questions")


if __name__ == "__main__":
    main()
