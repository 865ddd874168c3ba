"""Extracted values judged beside exact scores: match, partial, wrong, missing, spurious.

    python3 -m eval.judge GOLD.jsonl --schema SCHEMA.json --run NAME=OUT.jsonl [--run …] [-m MODEL] [--json FILE]
        [-- --threads 2]
    python3 -m eval.judge --check [-m MODEL [--adapter DIR]] [--data FOLDER]

Rules decide what needs no judge: a value where there is none is `spurious`, none where there is one `missing`, none in
both places is not counted, and texts that are equal once case, punctuation and articles are gone are a `match`. Of all
others a judge says `match`, `partial` or `wrong`. Without -m it is the words that both values share (their F1, by two
thresholds, and whether one value has all words of the other). With -m it is that model: every pair is a question with
three choices, a branch of one text that has the rules and examples. With P the sum of matches and half of the partial
ones (as MUC counts):

    precision = P / (match + partial + wrong + spurious)      recall = P / (match + partial + wrong + missing)

`exact` has the same with equal texts alone as matches. `--check` compares judges with labels by hand:
eval/samples/judge-labels.tsv has 200 pairs that were made up (the first hundred chose the prompt and the thresholds,
and take off what the model likes; the others are a test), eval/samples/judge-rows.tsv has 200 values that models wrote
of product titles and reference strings, by place, so that their texts are read from the folder of data sets.
"""

from __future__ import annotations

import argparse
import collections
import csv
import json
import random
import re
import sys
from pathlib import Path
from typing import Iterable, NamedTuple

from eval.data import default_folder, read_file
from eval.form import run
from eval.metrics import interval, normalize, token_f1
from eval.seqbatch import arguments

LABELS = Path(__file__).parent / "samples" / "judge-labels.tsv"
ROWS = LABELS.with_name("judge-rows.tsv")
SETS = {"oa_mine": "oa_mine.jsonl", "references_anystyle": "../train/references_anystyle.jsonl.gz"}  # of the folder
VERDICTS = ("match", "partial", "wrong")
ALL = (*VERDICTS, "missing", "spurious")
RULES = """Compare the written value of an attribute with the right value.
match: it says the same; spelling, units, abbreviations, order and words that add nothing may differ.
partial: it is only a part of the right value, or less exact.
wrong: it says something else.

"""
EXAMPLES = (
    ("weight", "1 kg", "1000 g", "match"),
    ("colour", "red and green", "green", "partial"),
    ("date", "5 May 2020", "6 May 2020", "wrong"),
    ("country", "Great Britain", "UK", "match"),
    ("length", "20 cm", "20 m", "wrong"),
    ("address", "Mill Lane 4, Leeds", "Leeds", "partial"),
    ("opens", "8 am", "08:00", "match"),
    ("seats", "four", "five", "wrong"),
    ("author", "Ann Lee and Bo Ray", "Ann Lee", "partial"),
)


class Pair(NamedTuple):
    attribute: str
    right: str
    written: str

    def text(self) -> str:
        return (
            f'For the attribute "{self.attribute}" the right value is "{self.right}". The written value is'
            f' "{self.written}". Is it a match, partial or wrong?'
        )


def told(value: object) -> str:
    """A value as a text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(told(one) for one in value)
    return str(value).strip()


def empty(value: object) -> bool:
    return value is None or value == [] or value == ""


_WORDS = re.compile(r"-?\d(?:[\d.,:/-]*\d)?|\w+|[^\w\s.,;:!?'\"()\[\]{}-]")  # a number is one word with its signs


def plain(text: str) -> list[str]:
    """Words without case, articles and the punctuation around them: 1.5 is not 15, and $5 is not £5."""
    return [word for word in _WORDS.findall(text.lower()) if word not in ("a", "an", "the")]


def decided(kind: str, right: object, written: object) -> str | None:
    """What rules say of a slot: a verdict, "" for nothing in both places, or None: the judge's. A list is of spellings
    that are all right, but for the type `list`, which wants all of them."""
    if empty(right) or empty(written):
        return "" if empty(right) and empty(written) else "missing" if empty(written) else "spurious"
    spellings = right if isinstance(right, list) and kind != "list" else [right]
    return "match" if any(plain(told(written)) == plain(told(one)) for one in spellings) else None


def pair_of(attribute: str, kind: str, right: object, written: object) -> Pair:
    first = right[0] if isinstance(right, list) and kind != "list" else right
    return Pair(attribute, told(first), told(written))


# --- By the words that both share
def features(pair: Pair) -> tuple[float, bool, bool]:
    """F1 of the words; whether the right value has all words of the written one; and the other way round."""
    right, written = (set(normalize(text).split()) for text in (pair.right, pair.written))
    return token_f1(pair.written, [pair.right]), bool(written) and written <= right, bool(right) and right <= written


def by_words(pair: Pair, match: float, partial: float) -> str:
    f1, part, whole = features(pair)
    if f1 >= match:
        return "match"
    return "partial" if f1 >= partial or part or whole else "wrong"


def thresholds(labels: list[tuple[Pair, str]]) -> tuple[float, float]:
    """(match, partial) that agree with most of the labels; of equal ones the greatest."""
    grid = [n / 20 for n in range(1, 22)]  # 1.05: never
    pairs = [(m, p) for m in grid for p in grid if p <= m]
    return max(pairs, key=lambda both: (sum(by_words(pair, *both) == label for pair, label in labels), both))


def judged(a: argparse.Namespace, pairs: Iterable[Pair]) -> dict[Pair, str]:
    """Verdicts of the model, or of shared words."""
    if a.model:
        return by_model(a, pairs)
    both = thresholds(halves()[0])
    return {pair: by_words(pair, *both) for pair in pairs}


def by_model(a: argparse.Namespace, pairs: Iterable[Pair]) -> dict[Pair, str]:
    """The model's verdicts. A pair that failed is an error. A model likes some words: what it gives to each verdict in
    the mean of the first half of the labels, which have all verdicts about as often, is taken off."""
    known = [pair for pair, _ in halves()[0]]
    asked = list(dict.fromkeys([*known, *pairs]))
    text = RULES + "\n".join(f"{Pair(*example[:3]).text()} {example[3]}" for example in EXAMPLES)
    row = dict(
        id="judge",
        context=text,
        questions=[dict(id=str(n), question=p.text(), choices=list(VERDICTS)) for n, p in enumerate(asked)],
    )
    written, _ = run(a, "ask", [row], ["--choices", "score", "--choice-score", "sum"])
    by_number = {r.get("question_id"): r for r in written}
    found = {}
    for n, pair in enumerate(asked):
        answer = by_number.get(str(n), {})
        if "scores" not in answer:
            raise SystemExit(f"judge: {pair.text()} expected scores, found {answer.get('error', 'nothing')}")
        found[pair] = answer["scores"]["sum"]
    return chosen(found, known)


def chosen(found: dict[Pair, list[float]], known: list[Pair]) -> dict[Pair, str]:
    """The best verdict of each pair, less its mean over the known ones. `found`: log-probabilities of the verdicts."""
    liking = [sum(found[pair][v] for pair in known) / len(known) for v in range(len(VERDICTS))]
    best = lambda scores: max(range(len(VERDICTS)), key=lambda v: scores[v] - liking[v])
    return {pair: VERDICTS[best(scores)] for pair, scores in found.items()}


def score(counts: dict[str, float]) -> dict[str, float]:
    good = counts.get("match", 0) + 0.5 * counts.get("partial", 0)
    common = sum(counts.get(v, 0) for v in VERDICTS)
    written, wanted = common + counts.get("spurious", 0), common + counts.get("missing", 0)
    precision, recall = good / written if written else 0.0, good / wanted if wanted else 0.0
    both = precision + recall
    return dict(precision=precision, recall=recall, f1=2 * precision * recall / both if both else 0.0)


def slots(gold: list[dict], schema: dict, output: list[dict]) -> list[list[tuple[str, str, object, object]]]:
    """(attribute, its type, right, written) of every document's slots that the gold row names."""
    categories = schema.get("categories") or {"": schema}
    by_id = {r.get("id"): r.get("values") or {} for r in output}
    out = []
    for row in gold:
        category = categories.get(row.get("category", "")) or next(iter(categories.values()))
        kinds = {one["name"]: one.get("type", "text") for one in category["attributes"]}
        written = by_id.get(row["id"], {})
        out.append([(n, kinds.get(n, "text"), right, written.get(n)) for n, right in row["values"].items()])
    return out


def spread(documents: list[list[str]], draws: int) -> list[float]:
    """95 % of the F1 of draws of documents, by the score's parts."""
    rng, made = random.Random(1), []
    for _ in range(draws):
        counts = collections.Counter(v for _ in documents for v in rng.choice(documents))
        made.append(score(counts)["f1"])
    made.sort()
    return [made[int(0.025 * len(made))], made[int(0.975 * len(made))]]


def judge_runs(a: argparse.Namespace, gold: list[dict], schema: dict, runs: dict[str, list[dict]]) -> list[dict]:
    """A row for each run: counts of the verdicts, and precision, recall and F1 by the judge and by equal texts."""
    by_run = {name: slots(gold, schema, output) for name, output in runs.items()}
    open_pairs = {
        pair_of(*slot) for documents in by_run.values() for d in documents for slot in d if decided(*slot[1:]) is None
    }
    verdicts = judged(a, sorted(open_pairs))
    out = []
    for name, documents in by_run.items():
        of_judge = [
            [decided(*s[1:]) or (verdicts[pair_of(*s)] if decided(*s[1:]) is None else "") for s in d]
            for d in documents
        ]
        of_texts = [["wrong" if decided(*s[1:]) is None else decided(*s[1:]) for s in d] for d in documents]
        made = {}
        for way, verdicts_of in (("judge", of_judge), ("exact", of_texts)):
            counts = collections.Counter(v for d in verdicts_of for v in d if v)
            made[way] = dict(
                score(counts), counts={v: counts.get(v, 0) for v in ALL}, interval=spread(verdicts_of, a.draws)
            )
        out.append(
            dict(
                run=name,
                documents=len(documents),
                asked=sum(v is None for d in documents for v in (decided(*s[1:]) for s in d)),
                **made,
            )
        )
    return out


def read_labels() -> list[tuple[Pair, str]]:
    with LABELS.open(encoding="utf-8", newline="") as file:
        return [
            (Pair(r["attribute"], r["right"], r["written"]), r["label"])
            for r in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]


def halves() -> tuple[list[tuple[Pair, str]], list[tuple[Pair, str]]]:
    labels = read_labels()
    return labels[: len(labels) // 2], labels[len(labels) // 2 :]


def labelled_rows(folder: Path | None) -> list[tuple[Pair, str]]:
    """Labels by hand of values that models wrote: a place is a set, a row, an attribute and characters of its text.
    Nothing where the sets are not there."""
    if not folder or not all((folder / file).is_file() for file in SETS.values()):
        return []
    known = {name: {r["id"]: r for r in read_file(folder / file)[2]} for name, file in SETS.items()}
    out = []
    with ROWS.open(encoding="utf-8", newline="") as file:
        for r in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            row = known[r["set"]].get(r["id"])
            if row is None or r["attribute"] not in row["values"]:
                raise SystemExit(
                    f"{ROWS}: expected '{r['attribute']}' of '{r['id']}' in {folder / SETS[r['set']]}, found nothing"
                )
            written = row["text"][int(r["begin"]) : int(r["end"])]
            out.append((pair_of(r["attribute"], "text", row["values"][r["attribute"]], written), r["label"]))
    return out


def kappa(pairs: list[tuple[str, str]]) -> float:
    """Cohen's: agreement beyond what two raters with these shares of verdicts would have by chance."""
    count, same = len(pairs), sum(a == b for a, b in pairs) / len(pairs)
    ours, theirs = (collections.Counter(side) for side in zip(*pairs))
    chance = sum(ours[v] * theirs[v] for v in ours) / count**2
    return (same - chance) / (1 - chance) if chance < 1 else 1.0


def kappa_interval(pairs: list[tuple[str, str]], draws: int) -> list[float]:
    """95 % of the kappas of draws of labels."""
    rng = random.Random(1)
    made = sorted(kappa(rng.choices(pairs, k=len(pairs))) for _ in range(draws))
    return [made[int(0.025 * len(made))], made[int(0.975 * len(made))]]


MOST_FREQUENT, EQUAL, WORDS = "always the most frequent", "equal texts alone", "shared words"


def judge_name(a: argparse.Namespace) -> str:
    if not a.model:
        return WORDS
    return Path(a.model).stem + (f" with {Path(a.adapter).name}" if getattr(a, "adapter", "") else "")


def check(a: argparse.Namespace) -> dict[str, dict[str, dict]]:
    """By part of the labels and by judge: agreement, with the judges that need no model."""
    chosen_on, test = halves()
    parts = {"chosen on": chosen_on, "test": test}
    if rows := labelled_rows(a.data):
        parts["rows"] = rows
    known = [pair for part in parts.values() for pair, _ in part]
    both = thresholds(chosen_on)
    judges = {
        MOST_FREQUENT: {},
        EQUAL: dict.fromkeys(known, "wrong"),  # equal ones are not asked of a judge
        WORDS: {pair: by_words(pair, *both) for pair in known},
    }
    if a.model:
        judges[judge_name(a)] = by_model(a, known)
    out: dict[str, dict[str, dict]] = {}
    for name, part in parts.items():
        most = collections.Counter(label for _, label in part).most_common(1)[0][0]
        for judge, verdicts in judges.items():
            pairs = [(label, verdicts.get(pair, most)) for pair, label in part]
            right = [float(x == y) for x, y in pairs]
            out.setdefault(name, {})[judge] = dict(
                labels=len(pairs),
                agreement=sum(right) / len(pairs),
                interval=interval([[r] for r in right], a.draws),
                kappa=kappa(pairs),
                kappa_interval=kappa_interval(pairs, a.draws),
                confusion={v: dict(collections.Counter(y for x, y in pairs if x == v)) for v in VERDICTS},
            )
    return out


def check_table(made: dict[str, dict[str, dict]]) -> str:
    lines = ["| labels | judge | agreement | kappa | " + " | ".join(f"{v} →" for v in VERDICTS) + " |"]
    lines.append("|---" * (4 + len(VERDICTS)) + "|")
    for name, judges in made.items():
        for judge, s in judges.items():
            rows = [", ".join(f"{n} {v}" for v, n in sorted(s["confusion"][v].items())) for v in VERDICTS]
            low, high = s["interval"]
            least, most = s["kappa_interval"]
            lines.append(
                f"| {name}, {s['labels']} | {judge} | {100 * s['agreement']:.0f} % ({100 * low:.0f}–{100 * high:.0f}) |"
                f" {s['kappa']:.2f} ({least:.2f} to {most:.2f}) | " + " | ".join(rows) + " |"
            )
    return "\n".join(lines) + "\n"


def table(rows: list[dict]) -> str:
    lines = ["| run | by | precision | recall | F1 | " + " | ".join(ALL) + " |", "|---" * (5 + len(ALL)) + "|"]
    for row in rows:
        for way in ("judge", "exact"):
            s = row[way]
            low, high = s["interval"]
            lines.append(
                f"| {row['run']} | {way} | {s['precision']:.3f} | {s['recall']:.3f} | {s['f1']:.3f} ({low:.2f} to"
                f" {high:.2f}) | " + " | ".join(str(s["counts"][v]) for v in ALL) + " |"
            )
    return "\n".join(lines) + "\n"


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def options(words: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("gold", type=Path, nargs="?")
    p.add_argument("-m", "--model", default="", help="the judge (default: the words that two values share)")
    p.add_argument("--adapter", default="", help="of the judge")
    p.add_argument("--schema", type=Path)
    p.add_argument("--run", dest="runs", action="append", default=[], metavar="NAME=OUT.jsonl")
    p.add_argument("--check", action="store_true", help="compare with the labels written by hand")
    p.add_argument("--data", type=Path, default=default_folder(), help="--check: folder of data sets")
    p.add_argument("--draws", type=int, default=1000, help="of the bootstrap")
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--json", type=Path)
    a = arguments(p, words)
    if not a.check and not (a.gold and a.schema and a.runs):
        p.error("expected GOLD.jsonl, --schema and --run, or --check")
    return a


def main() -> int:
    a = options()
    if a.check:
        made: object = check(a)
        print(check_table(made))
        if "rows" not in made:
            names = ", ".join(SETS.values())
            print(
                f"{ROWS.name} was left out: expected {names} in --data, found {a.data or 'no folder'}", file=sys.stderr
            )
    else:
        runs = {name: lines_of(Path(file)) for name, _, file in (given.partition("=") for given in a.runs)}
        schema = json.loads(a.schema.read_text(encoding="utf-8"))
        made = judge_runs(a, lines_of(a.gold), schema, runs)
        print(table(made))
    if a.json:
        a.json.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
