"""The semantic filter on two sets: recall, precision and cost of a cascade against the large model alone.

    python3 -m eval.semantic_filter DATA LARGE SMALL [--count 60] [--words 80] [--recall 0.9] [--adapter …]

DATA is the folder with covidqa.jsonl, fairytaleqa.jsonl and squad2.jsonl. Texts are stretches of their documents: of
the first two sets the statement is true, of SQuAD 2.0's paragraphs it is taken to be false. Half of them are the
labelled sample, half are filtered; no document is in both. Cost is prompt tokens times parameters, in units of the
large model reading every text.
"""

import argparse
import json
import pathlib
import random
import sys
import time

import banyan
from banyan._filter import Share

SETS = {"covidqa": "it is about viruses or infectious diseases", "fairytaleqa": "it tells a story"}


def stretches(path: pathlib.Path, count: int, words: int, draw: random.Random) -> list[tuple[str, str]]:
    """(document, text), as many as wanted, the same number of every document as far as there are."""
    documents = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        found = row["context"].split()
        begin = 60 if len(found) > 400 else 0  # a paper's head has names and numbers
        pieces = [" ".join(found[at : at + words]) for at in range(begin, len(found), words)]
        documents[row["id"]] = [piece for piece in pieces if len(piece.split()) >= min(words, len(found)) * 0.8]
    taken: list[tuple[str, str]] = []
    names = list(documents)
    draw.shuffle(names)
    for turn in range(max(map(len, documents.values()))):
        for name in names:
            pieces = documents[name]
            if turn < len(pieces) and len(taken) < count:
                taken.append((name, pieces[turn * 7 % len(pieces)]))
    return taken


def halves(labelled: list[tuple[str, str, bool]]) -> tuple[list, list]:
    """By document, so that the sample knows nothing of what is filtered."""
    sides: tuple[list, list] = ([], [])
    names = sorted({name for name, _, _ in labelled})
    for name, text, true in labelled:
        sides[names.index(name) % 2].append((text, true))
    return sides


def area(probabilities: list[float], labels: list[bool]) -> float:
    """The share of pairs that are in the right order."""
    yes = [p for p, true in zip(probabilities, labels) if true]
    no = [p for p, true in zip(probabilities, labels) if not true]
    return sum((a > b) + (a == b) / 2 for a in yes for b in no) / (len(yes) * len(no))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("large")
    parser.add_argument("small")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--words", type=int, default=80)
    parser.add_argument("--recall", type=float, default=0.9)
    parser.add_argument("--choice-score", default="prior")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    arguments = parser.parse_args()
    with banyan.Model(arguments.large) as large, banyan.Model(arguments.small) as small:
        weights = {model.path: model.weight_bytes for model in (large, small)}
        for name in arguments.sets:
            draw = random.Random(7)
            both = [
                (*one, True)
                for one in stretches(arguments.data / f"{name}.jsonl", arguments.count, arguments.words, draw)
            ]
            both += [
                (*one, False)
                for one in stretches(arguments.data / "squad2.jsonl", arguments.count, arguments.words, draw)
            ]
            sample, asked = halves(both)
            texts, labels = [text for text, _ in asked], [true for _, true in asked]
            for title, cascade in (("large alone", None), ("cascade", small)):
                start = time.process_time()
                found = banyan.filter(
                    texts,
                    SETS[name],
                    model=large,
                    small=cascade,
                    labelled=sample,
                    recall=arguments.recall,
                    choice_score=arguments.choice_score,
                )
                keep = [bool(one) for one in found.keep]
                hits = sum(one and true for one, true in zip(keep, labels))
                cost = (
                    found.asked["large"] + found.asked.get("small", 0) * weights[small.path] / weights[large.path]
                ) / len(texts)
                recall, precision = Share(hits, sum(labels)), Share(hits, sum(keep))
                print(
                    json.dumps(
                        {
                            "set": name,
                            "filter": title,
                            "texts": len(texts),
                            "sample": len(sample),
                            "recall": round(recall.value, 3),
                            "recall_interval": [round(x, 3) for x in recall.interval],
                            "precision": round(precision.value, 3) if sum(keep) else None,
                            "cost": round(cost, 3),
                            "asked": found.asked,
                            "threshold": round(found.threshold, 4),
                            "sample_recall": round(found.recall.value, 3),
                            "area": (
                                round(area([p or 0.0 for p in found.probabilities], labels), 3)
                                if cascade is None
                                else None
                            ),
                            "processor_seconds": round(time.process_time() - start, 1),
                        }
                    ),
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
