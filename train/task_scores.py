"""Scores of an adapter on frozen sets, in PyTorch, in batches: the same prompts and greedy answers as `banyan`.

    python3 -m train.task_scores make --model MODEL.gguf --data SHARED --texts texts.jsonl.xz --out measured.jsonl.xz
    python3 -m train.task_scores score --model MODEL.gguf --measured measured.jsonl.xz [--adapter DIR] --out FOLDER

`make` writes the sets with the program's own layout (`extract --layout`), once for each vocabulary: the held-out
questions of SQuAD 2.0, `natural.jsonl`, two-hop questions on their documents, paragraphs in four languages that no
training has, and the slots of `everyday*.jsonl` and of OA-Mine's test titles. `score` answers them: all answers of a
batch are guessed at once and corrected in passes until none changes, which gives the same as one token after another.

Questions: exact match and F1 as `eval.reading`, with what `null` everywhere gets. Slots: a value counts if it is the
gold value after a simple conversion of numbers and dates; the program converts more (units, words), so its scores are
the ones to publish (`eval.extraction`). FOLDER gets `scores.json` and `answers.jsonl` (log-probabilities, for
calibration).
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import re
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import torch

from eval.extraction import is_test, write_titles
from eval.metrics import exact_match, normalize, token_f1
from train.lora_model import LoraModel, load_adapter
from train.model import Visibility
from train.sample import DEFAULT_INSTRUCTION
from train.skeleton_score import value_in
from train.task_encode import asked_parts
from train.tokenizer import Tokenizer, load_tokenizer

MOST = 32  # tokens of an answer
_MONTHS = (
    "jan|janv|januar january janvier;feb|fév|februar february février;mar|mär|mars|märz march;apr|avr|april avril;"
    "may|mai;jun|juin|juni june;jul|juil|juli july juillet;aug|août|august;sep|sept|september septembre;"
    "oct|okt|october oktober octobre;nov|november novembre;dec|dez|déc|december dezember décembre"
)
_ENDS = re.compile(rb'[",}\]\n]|null|true|false')
MONTHS = {w: n for n, names in enumerate(_MONTHS.split(";"), 1) for w in re.split(r"[| ]", names)}


@dataclass
class Part:
    """One answer to be written. `tokens` stand at `position` and after the shared prompt; `room`: the most tokens."""

    tokens: list[int]
    position: int
    branch: int  # 0: a slot, whose values see those above; else they see the prompt alone
    room: int
    draft: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    null: float | None = None  # log-probability that the answer begins as null does
    settled: bool = False


@dataclass
class Item:
    row: dict
    prompt: list[int]
    parts: list[Part]


def number_of(text: str) -> float | None:
    m = re.search(r"-?\d[\d.,' \u00a0\u202f]*", text)
    if not m:
        return None
    raw = re.sub(r"[' \u00a0\u202f]", "", m[0]).rstrip(".,")
    last = max(raw.rfind("."), raw.rfind(","))
    if last >= 0:
        other = "," if raw[last] == "." else "."
        whole, tail = raw[:last].replace(other, ""), raw[last + 1 :]
        thousands = len(tail) == 3 and (raw[last] in whole or other not in raw and raw[last] == ",")
        raw = whole.replace(raw[last], "") + ("" if thousands else ".") + tail
    try:
        return float(raw)
    except ValueError:
        return None


def date_of(text: str) -> str | None:
    if m := re.search(r"(\d{4})-(\d{1,2})-(\d{1,2})", text):
        return f"{m[1]}-{int(m[2]):02}-{int(m[3]):02}"
    if m := re.search(r"(\d{1,2})[./-](\d{1,2})[./-](\d{2,4})", text):
        return f"{int(m[3]) + (2000 if len(m[3]) == 2 else 0)}-{int(m[2]):02}-{int(m[1]):02}"
    words = re.findall(r"[^\W\d_]+|\d+", text.lower())
    month = next((MONTHS[w] for w in words if w in MONTHS), None)
    year = next((w for w in words if w.isdigit() and len(w) == 4), None)
    day = next((w for w in words if w.isdigit() and len(w) <= 2), None)
    return f"{year}-{month:02}-{int(day):02}" if month and year and day else None


def same_value(made, gold, kind: str) -> bool:
    """Whether a written value means the gold one. `gold`: a list has all spellings of a text."""
    if made is None or gold is None or gold == []:
        return made is None and (gold is None or gold == [])
    if kind in ("number", "integer"):
        number = number_of(str(made))
        return number is not None and abs(number - float(gold)) < 1e-6
    if kind == "date":
        return date_of(str(made)) == str(gold)
    if kind == "boolean":
        return str(made).lower() == str(gold).lower()
    if kind == "list":
        texts = lambda v: {normalize(str(x)) for x in (v if isinstance(v, list) else [v])}
        return texts(made) == texts(gold)
    spellings = gold if isinstance(gold, list) else [gold]
    return any(normalize(str(made)) == normalize(str(g)) for g in spellings)


# --- the frozen sets


def question_sets(data: Path, samples: Path, texts: Path, languages: dict[str, str]) -> list[dict]:
    """Rows of sets for `ask`."""
    from eval.reading import held_records
    from train.reader_data import is_held
    from train.reading_texts import held_translation, load_rows

    read = lambda path: [json.loads(line) for line in path.open(encoding="utf-8")]
    keep = lambda name, r, context: dict(set=name, id=r["id"], context=context, questions=r["questions"])
    out = [keep("squad2", r, r["context"]) for r in held_records(data / "data", "squad2", 0)]
    out += [keep("natural", r, r["context"]) for r in read(samples / "natural.jsonl")]
    hops = [r for r in read(data / "data" / "hotpotqa.jsonl") if is_held("hotpotqa", r["id"])][:40]
    for r in hops:
        gold = "\n\n".join(d["text"] for d in r["documents"] if d["gold"])
        asked = [dict(id="q", question=r["question"], answers=r["answers"])]
        out.append(dict(set="hops", id=r["id"], context=gold, questions=asked))
    trained = {r.text for r in load_rows(texts) if r.split == "train"} if texts else set()
    for name, source in languages.items():
        with gzip.open(data / "train" / "multilingual" / f"{source}.jsonl.gz", "rt", encoding="utf-8") as f:
            rows = [json.loads(line) for line in f]
        held = [r for r in rows if held_translation(source, r["id"]) and r["context"].strip() not in trained][:40]
        out += [keep(name, r, r["context"]) for r in held]
    return out


def slot_sets(binary: str, model: Path, data: Path, samples: Path) -> list[dict]:
    """Rows of sets for `extract`, as the program lays them out for this model."""
    from eval.banyan import Engine
    from eval.extraction import Set
    from train.skeleton_data import layouts

    out = []
    with tempfile.TemporaryDirectory() as folder:
        titles = [json.loads(line) for line in (data / "data" / "oa_mine.jsonl").open(encoding="utf-8")]
        write_titles(Path(folder), [t for t in titles if is_test(t["id"])])
        files = [samples / f"{n}.jsonl" for n in ("everyday", "everyday-dev2", "everyday-dev")]
        for docs in [*files, Path(folder, "titles.jsonl")]:
            schema = docs.with_name(docs.stem + "-schema.json")
            given, laid = Set(docs, schema), layouts(Engine(binary, str(model)), docs, schema, [])
            for r in given.rows:
                layout, of = laid[json.dumps(r["id"])], {a["name"]: a for a in given.attributes(r)}
                names = [p["name"] for p in layout["pieces"]]
                row = dict(set=docs.stem, id=r["id"], prompt=layout["prompt"], slots=layout["slots"], names=names)
                row["types"] = [of.get(n, {}).get("type", "text") for n in names]
                out.append(row | dict(values={n: r["values"].get(n) for n in names}))
    return out


# --- answers


def items_of(tok: Tokenizer, rows: list[dict], most: int = 16) -> list[Item]:
    """Questions of a text in groups of at most `most`."""
    out = []
    for r in rows:
        if "slots" in r:
            parts = [Part(s["tokens"], s["position"], 0, s["max_tokens"]) for s in r["slots"]]
            out.append(Item(r, r["prompt"], parts))
            continue
        for at in range(0, len(r["questions"]), most):
            some = r["questions"][at : at + most]
            shared, rest = asked_parts(tok, DEFAULT_INSTRUCTION, r["context"], [q["question"] for q in some])
            parts = [Part(tokens, len(shared), n, MOST) for n, tokens in enumerate(rest, 1)]
            for p, q in zip(parts, some):
                p.draft = tok.encode(q["answers"][0] if q["answers"] else "null")[: MOST - 1]
            out.append(Item(dict(r, questions=some), shared, parts))
    return out


class Answers:
    """Greedy answers to items, in rows of one shape so that a compiled network is compiled once."""

    def __init__(self, model: LoraModel, tok: Tokenizer, rows: int, length: int, mask: Visibility | None = None):
        self.model, self.tok, self.rows, self.length = model, tok, rows, length
        self.device = model.embedding.device
        self.mask = mask or Visibility(rows, length, self.device)
        self.skipped, self.null_token = 0, tok.encode("null")[0]

    def ended(self, part: Part, draft: list[int]) -> int | None:
        """How many tokens the answer has with the one that ends it; None while it goes on."""
        if part.branch:
            return draft.index(self.tok.im_end) + 1 if self.tok.im_end in draft else None
        for n in range(1, len(draft) + 1):
            if draft[n - 1] != self.tok.im_end and n > 1 and not _ENDS.search(self.tok.bytes_of(draft[n - 1])):
                continue  # nothing that a value ends with
            text = self.tok.decode(draft[:n]).lstrip()
            whole = text[:1] in ('"', "[") or text in ("null", "true", "false") or re.search(r"[,}\n]", text)
            if draft[n - 1] == self.tok.im_end or whole and value_in(text + "\n") is not ...:
                return n
        return None

    def fill(self, batch: dict, r: int, at: int, number: int, item: Item) -> tuple[int, list[tuple[Part, int]]]:
        """Writes an item into row r from `at`; returns its end and where each open answer begins."""
        places = []

        def put(ids: list[int], pos: int, branch: int, step: int) -> None:
            nonlocal at
            n = len(ids)
            batch["ids"][r, at : at + n] = torch.tensor(ids)
            batch["pos"][r, at : at + n] = torch.arange(pos, pos + n)
            batch["branch"][r, at : at + n] = branch
            batch["step"][r, at : at + n] = torch.arange(step, step + n) if step else 0
            batch["doc"][r, at : at + n] = number
            at += n

        put(item.prompt, 0, 0, 0)
        for p in item.parts:
            if p.branch and p.settled:
                continue
            put(p.tokens, p.position, p.branch, 0)
            places.append((p, at - 1))
            if p.draft:
                put(p.draft, p.position + len(p.tokens), p.branch, 0 if p.branch else 1)
        return at, places

    def size(self, item: Item) -> int:
        open_parts = [p for p in item.parts if not (p.branch and p.settled)]
        return len(item.prompt) + sum(len(p.tokens) + len(p.draft) for p in open_parts)

    @torch.no_grad()
    def correct(self, items: list[Item]) -> None:
        """One pass over one batch: every draft becomes what the model says after it."""
        shape = (self.rows, self.length)
        batch = {n: torch.zeros(shape, dtype=torch.int32) for n in ("ids", "pos", "branch", "step")}
        batch["doc"] = torch.full(shape, 255, dtype=torch.int32)
        ends, counts, places = [0] * self.rows, [0] * self.rows, []
        for item in items:
            r = min(range(self.rows), key=lambda n: ends[n])
            ends[r], found = self.fill(batch, r, ends[r], counts[r], item)
            counts[r] += 1
            places += [(r, at, p) for p, at in found]
        batch = {n: x.to(self.device) for n, x in batch.items()}
        h = self.model.hidden(batch["ids"], batch["pos"], self.mask(batch))
        index = [(r, at + k) for r, at, p in places for k in range(len(p.draft) + 1)]
        where = torch.tensor(index, device=self.device)
        best, score, null = [], [], []
        for part in where.split(2048):
            logits = torch.nn.functional.linear(h[part[:, 0], part[:, 1]], self.model.head).float()
            top = logits.max(-1)
            best += top.indices.tolist()
            score += (top.values - logits.logsumexp(-1)).tolist()
            null += (logits[:, self.null_token] - logits.logsumexp(-1)).tolist()
        at = 0
        for _, _, p in places:
            n = len(p.draft) + 1
            made, logprobs, p.null = best[at : at + n], score[at : at + n], null[at]
            at += n
            whole = self.ended(p, made)
            end = whole or min(len(made), p.room)
            over = whole is not None or end == p.room
            fed = made[: end - 1] if over else made[:end]
            p.settled = fed == p.draft and over
            p.draft, p.logprobs = fed, logprobs[:end]
            p.made = made[:end]

    def write(self, items: list[Item], deadline: float = float("inf")) -> None:
        """Until no draft changes. Items that do not fit in a row are left out and counted."""
        room = lambda item: self.size(item) + sum(p.room for p in item.parts)
        fitting = [i for i in items if room(i) <= self.length]
        self.skipped = len(items) - len(fitting)
        open_items = fitting
        for _ in range(2 * MOST + 8):
            open_items = [i for i in open_items if not all(p.settled for p in i.parts)]
            if not open_items or time.time() > deadline:
                break
            waiting = sorted(open_items, key=self.size, reverse=True)
            while waiting and time.time() < deadline:
                ends, counts, batch, rest = [0] * self.rows, [0] * self.rows, [], []
                for item in waiting:
                    r = min(range(self.rows), key=lambda n: ends[n])
                    if ends[r] + self.size(item) <= self.length and counts[r] < 250:
                        ends[r] += self.size(item)
                        counts[r] += 1
                        batch.append(item)
                    else:
                        rest.append(item)
                self.correct(batch)
                waiting = rest


def judged(tok: Tokenizer, items: list[Item]) -> list[dict]:
    """A row for every answer."""
    out = []
    for item in items:
        row = item.row
        base = dict(set=row["set"], id=row["id"])
        for n, p in enumerate(item.parts):
            made = getattr(p, "made", [])
            text = tok.decode(made).strip()
            sums = dict(logprob=round(sum(p.logprobs), 4), first=round(p.logprobs[0], 4) if p.logprobs else None)
            if p.branch:
                q = row["questions"][n]
                f1, exact = token_f1(text, q["answers"]), float(exact_match(text, q["answers"]))
                null, known = normalize(text) == "null", bool(q["answers"])
                sums |= dict(null_first=round(p.null, 4)) if p.null is not None else {}
                out.append(
                    base
                    | dict(question=q["id"], answer=text, f1=round(f1, 4), exact=exact, null=null, known=known)
                    | sums
                )
                continue
            value, name, kind = value_in(text + "\n"), row["names"][n], row["types"][n]
            value = None if value is ... else value
            gold = row["values"][name]
            known = gold is not None and gold != []
            right = same_value(value, gold, kind)
            out.append(
                base | dict(slot=name, type=kind, answer=value, right=right, null=value is None, known=known) | sums
            )
    return out


def summary(rows: list[dict]) -> dict:
    sets: dict[str, list[dict]] = defaultdict(list)
    for r in rows:
        sets[r["set"]].append(r)
    mean = lambda values: round(sum(values) / len(values), 4) if values else None
    out = {}
    for name, some in sets.items():
        known, unknown = [r for r in some if r["known"]], [r for r in some if not r["known"]]
        null = dict(
            null_where_none=mean([r["null"] for r in unknown]), null_where_answer=mean([r["null"] for r in known])
        )
        if "question" in some[0]:
            scored = dict(questions=len(some), exact=mean([r["exact"] for r in some]), f1=mean([r["f1"] for r in some]))
            scored |= dict(f1_of_known=mean([r["f1"] for r in known]), all_null=round(len(unknown) / len(some), 4))
        else:
            hits, told = sum(r["right"] for r in known), sum(not r["null"] for r in some)
            precision, recall = hits / max(told, 1), hits / max(len(known), 1)
            scored = dict(slots=len(some), right=mean([r["right"] for r in some]))
            scored |= dict(strict_f1=round(2 * precision * recall / max(precision + recall, 1e-9), 4))
            scored |= dict(all_null=round(len(unknown) / len(some), 4))
        out[name] = scored | null
    return out


def load_measured(path: Path) -> list[dict]:
    with lzma.open(path, "rt", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def score(
    model: LoraModel, tok: Tokenizer, rows: list[dict], shape: tuple[int, int], mask=None, seconds: float = 1e9
) -> tuple[dict, list[dict]]:
    """(by set, a row for every answer); answers that are not whole after `seconds` are judged as they are."""
    items, answers = items_of(tok, rows), Answers(model, tok, *shape, mask)
    began = time.time()
    answers.write(items, began + seconds)
    made = judged(tok, items)
    unsettled = sum(not p.settled for i in items for p in i.parts)
    took = round(time.time() - began, 1)
    return summary(made) | dict(seconds=took, skipped=answers.skipped, unsettled=unsettled), made


def make(a: argparse.Namespace) -> None:
    languages = dict(english="xquad_en", german="xquad_de", spanish="xquad_es", french="piaf")
    rows = question_sets(a.data, a.samples, a.texts, languages) + slot_sets(a.banyan, a.model, a.data, a.samples)
    with lzma.open(a.out, "wt", encoding="utf-8") as f:
        f.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
    count = defaultdict(int)
    for r in rows:
        count[r["set"]] += len(r.get("questions", r.get("slots")))
    print(dict(count), f"{a.out.stat().st_size / 1e6:.2f} MB")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("make", "score"))
    p.add_argument("--model", type=Path, required=True)
    p.add_argument("--data", type=Path, help="folder with data/ and train/")
    p.add_argument("--samples", type=Path, default=Path(__file__).parents[1] / "eval" / "samples")
    p.add_argument("--texts", type=Path)
    p.add_argument("--banyan", default="build/release/banyan")
    p.add_argument("--measured", type=Path)
    p.add_argument("--adapter", type=Path)
    p.add_argument("--only", nargs="*", help="sets")
    p.add_argument("--limit", type=int, default=0, help="rows of each set")
    p.add_argument("--rows", type=int, default=4)
    p.add_argument("--length", type=int, default=4096)
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    if a.what == "make":
        return make(a)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rank = json.loads((a.adapter / "adapter_config.json").read_text())["r"] if a.adapter else 0
    model = LoraModel(a.model, rank, 2 * rank, device, torch.bfloat16 if device.type == "cuda" else torch.float32)
    if a.adapter:
        load_adapter(model, a.adapter)
    if device.type == "cuda":
        model.use_flex()
    rows, kept, count = load_measured(a.measured), [], defaultdict(int)
    for r in rows:
        count[r["set"]] += 1
        if (not a.only or r["set"] in a.only) and (not a.limit or count[r["set"]] <= a.limit):
            kept.append(r)
    found, made = score(model, load_tokenizer(a.model), kept, (a.rows, a.length))
    a.out.mkdir(parents=True, exist_ok=True)
    (a.out / "scores.json").write_text(json.dumps(found, indent=1) + "\n")
    with (a.out / "answers.jsonl").open("w", encoding="utf-8") as f:
        f.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in made)
    for name, row in found.items():
        print(name, json.dumps(row))


if __name__ == "__main__":
    main()
