"""Texts that SmolLM2-135M-Instruct writes, with questions that it asks and answers itself, as training data for a small reader. One GPU:

    python3 -m train.written --model SMOLLM2.gguf --adapter models/smollm2-reader --examples FILE.jsonl.gz --out FOLDER --seconds 480

1. The model as it is writes everyday texts: a kind of text, a subject, perhaps a name or a number are given.
2. With the reading adapter merged it is tuned, all weights, on templates and question files: to answer, and to ask.
3. It asks several questions on each text, those of the question files and of templates among them, and answers them. Kept is what it is sure of: an answer that stands in the text, or `null`.

FOLDER gets `0.jsonl.gz`, `1.jsonl.gz`, … one after the other (`Example`s of `train.reader_data`), so that a trainer beside it can read them at once.
"""
from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from train.decode import complete
from train.encode import prompt_ids, question_ids
from train.feed import feed
from train.leg import Trainer, prefetch, schedule
from train.lexicon import TRAIN, Lexicon
from train.natural import natural, spelled
from train.natural_words import value
from train.prune import load_large, merge_adapter_into
from train.reader_data import Example
from train.reader_mixture import Mixture
from train.sample import DEFAULT_INSTRUCTION, Branch, Sample
from train.tokenizer import Tokenizer, load_tokenizer

SELF = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
ASK, ASK_LEAD = "Write one short question that the text answers.", "\n\nWrite a question."
KINDS = ("a letter to a landlord,a letter from a school to parents,a letter to an old friend,an email to a colleague,an email from a shop to a customer,a complaint to an airline,"
         "a reply from a customer service team,an invitation,a short news report,a local newspaper article,a sports report,a weather report,a short biography,an obituary,"
         "a paragraph from an encyclopedia,a description of a building,a description of a town,a travel diary entry,a travel guide paragraph,a recipe told in a few sentences,"
         "a product description,a product review,a restaurant review,a book review,instructions for using a machine,a safety notice,a notice to residents,the minutes of a meeting,"
         "a job advertisement,an application letter,a support ticket,a bug report,a doctor's note,a patient information leaflet,a rental agreement in plain words,a contract summary,"
         "an insurance claim,a police report,a scientific summary,a paragraph about an animal,a paragraph about a plant,a short story,a fairy tale,a museum label,a history paragraph,"
         "a business report,a quarterly summary of a company,an announcement of an event,a conference programme in prose,a timetable explained in prose,a receipt explained in prose,"
         "an invoice with items and amounts,a shopping list with remarks,a list of opening hours and prices,a diary entry,a speech,an interview,a charity appeal,a club newsletter,"
         "a hotel booking confirmation,a delivery notice,a bank statement explained in prose,a school report,a course description,a game's rules,a legal notice,a memo to staff").split(",")
SUBJECTS = ("a broken boiler,a lost parcel,a new bridge,a harvest,a school trip,a wedding,a flood,a storm,a concert,a rowing race,a football match,a bicycle tour,a mountain hike,a train journey,"
            "a ferry,a night flight,a museum,a library,a hospital,a bakery,a vineyard,a farm,a lighthouse,a factory,a software update,a phone,a laptop,a washing machine,a car repair,"
            "a garden,an orchard,bees,birds,a rescued dog,a cat,horses,fish,a forest,a river,a volcano,a comet,a telescope,a vaccine,a medicine,a cold winter,a heat wave,a painting,"
            "a sculpture,a film,a novel,a choir,a violin,a theatre,a festival,a market,a bank loan,a tax form,a rent increase,a new manager,a training course,an experiment,a patent,"
            "an archaeological find,a castle,a king,an explorer,an inventor,a nurse,a teacher,a chess player,a swimmer,a cook,soup,bread,a cake,tea,coffee,cheese,chocolate,furniture,"
            "shoes,clothes,toys,a power cut,solar panels,wind turbines,recycling,a new tram line,road works,parking,a swimming pool,a playground,an election,a charity run,an auction").split(",")
GIVEN = ("person", "person", "company", "town", "city", "date", "date", "time", "money", "price", "phone", "code", "percent", "duration", "street", "organisation", "weight", "length", "year", "email")


@dataclass
class TeacherMixture:
    """Samples of the reader's mixture, every other one turned round: the text is given, the question is written."""
    reading: Mixture
    templates: float = 0.65  # share

    def __call__(self, lex: Lexicon, progress: float) -> Sample:
        kind = "natural" if lex.chance(self.templates) else "examples"
        s = self.reading.from_pool(lex, kind) if kind == "examples" else None
        if s is None:
            s = natural(lex, 300, self.reading.natural)
        if lex.chance(0.5):
            return Sample(DEFAULT_INSTRUCTION, s.context, s.branches, text_weight=0.0)
        asked = [Branch("", b.question, "ask", weight=0.3) for b in s.branches if b.answer != "null" and not b.task.startswith("cloze")]
        return Sample(ASK, s.context, asked or s.branches[:0], ASK_LEAD, text_weight=0.0)


def writing_prompt(lex: Lexicon) -> str:
    """Few details are asked for: a model of this size drowns in them."""
    given = [value(lex, k) for k in lex.rng.sample(GIVEN, lex.between(0, 2))]
    about = f" about {lex.choice(SUBJECTS)}" if lex.chance(0.7) else ""
    return f"Write {lex.choice(KINDS)}{about}, in about {lex.choice((70, 100, 140))} words, with names, dates and numbers." + (f" Mention {' and '.join(given)}." if given else "")


def known_texts(lex: Lexicon, examples: Path, folder: Path, expansions: int) -> list[str]:
    """Training texts of the question files, on which more can be asked, and expansions of templates."""
    with gzip.open(examples, "rt", encoding="utf-8") as f:
        out = sorted({e["context"] for e in map(json.loads, f) if e["split"] == "train" and e["source"] != "generated" and 35 <= len(e["context"].split()) <= 330})
    lex.rng.shuffle(out)
    return out + [natural(lex, 100, folder).context for _ in range(expansions)]


def tidy(text: str) -> str | None:
    """A passage that ends with a sentence; None for what is too short, a loop, or talks about its own task."""
    text = re.sub(r"\*\*|^#+ ", "", text.strip(), flags=re.M)
    text = re.sub(r"^(?:Here(?:'s| is)|Sure)[^\n]*:\s*", "", text).strip().strip('"')
    end = max(text.rfind(c) for c in ".!?")
    last_line = text.rfind("\n")
    text = text if end < 0 or end == len(text) - 1 else text[:max(end + 1, last_line)].strip()
    words = text.split()
    grams = [" ".join(words[i:i + 4]) for i in range(len(words) - 3)]
    if not 35 <= len(words) <= 330 or len(set(grams)) < 0.85 * len(grams) or "<|" in text or "word" in " ".join(words[:12]).lower():
        return None
    return text


def write_texts(model, tok: Tokenizer, lex: Lexicon, count: int, dtype, batch: int, max_new: int, deadline: float) -> list[str]:
    out: list[str] = []
    while len(out) < count and time.time() < deadline:
        prompts = [prompt_ids(tok, SELF) + question_ids(tok, writing_prompt(lex)) for _ in range(batch)]
        made = complete(model, prompts, max_new, tok.im_end, dtype, temperature=0.7, batch=batch)
        kept = [t for t in (tidy(tok.decode(ids)) for ids, _ in made) if t]
        out += kept
        say(texts=len(out), kept=round(len(kept) / len(made), 3))
    return out


def tune(model, a: argparse.Namespace, deadline: float, draw: TeacherMixture | None = None) -> None:
    device = model.embedding.device
    if device.type == "cuda":
        model.use_flex()
    model.z = 1e-5
    trainer = Trainer(model, a.rows, a.length, a.lr, a.adam_lr)
    draw = draw or TeacherMixture(Mixture(a.examples, a.natural))
    batches = prefetch(feed(a.tune_steps, a.rows, a.seed, (0.5, 1.0), a.model, a.workers, draw, a.length), device)
    began, losses = time.time(), []
    for step, batch in enumerate(batches):
        gone = max(step / a.tune_steps, (time.time() - began) / max(1.0, deadline - began))
        losses.append(trainer.step(batch, min(1.0, (step + 1) / 30) * schedule(gone, 0.4)))
        if (step + 1) % 50 == 0 or step == 0:
            say(tuning=step + 1, loss=round(torch.stack(losses).mean().item(), 4))
            losses = []
        if gone >= 1:
            break
    batches.close()


def ask_and_answer(model, tok: Tokenizer, texts: list[str], a: argparse.Namespace, dtype, deadline: float) -> list[Example]:
    texts = sorted(texts, key=len)
    heads = [prompt_ids(tok, ASK) + tok.encode(t) + question_ids(tok, ASK_LEAD) for t in texts]
    asked = complete(model, [h for h in heads for _ in range(a.questions)], 28, tok.im_end, dtype, temperature=0.8, batch=a.batch, deadline=deadline)
    pairs: list[tuple[int, str]] = []
    for n, (ids, _) in enumerate(asked):
        question = tok.decode(ids).strip()
        if question.endswith("?") and 3 <= len(question.split()) <= 26 and (n // a.questions, question) not in pairs[-a.questions:]:
            pairs.append((n // a.questions, question))
    prompts = [prompt_ids(tok, DEFAULT_INSTRUCTION) + tok.encode(texts[n]) + question_ids(tok, "\n\nQuestion: " + q) for n, q in pairs]
    answers = complete(model, prompts, 24, tok.im_end, dtype, batch=a.batch, deadline=deadline)
    out, nulls = [], 0
    for (n, question), (ids, score) in zip(pairs, answers):
        answer = tok.decode(ids).strip()
        found = None if answer == "null" else spelled([answer], texts[n])
        if answer == "null" and score > math.log(0.8) and nulls < 0.25 * (len(out) + 1):
            nulls += 1
            out.append(Example("written", "null", "train", "", texts[n], question, "null", []))
        elif found and len(found.split()) <= 14 and score > math.log(a.sure):
            out.append(Example("written", "answer", "train", "", texts[n], question, found, [found]))
    say(texts=len(texts), asked=len(pairs), kept=len(out), null=nulls)
    return out


def say(**row) -> None:
    print(json.dumps(dict(row, at=time.strftime("%H:%M:%S"))), flush=True)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=Path, required=True)
    p.add_argument("--adapter", type=Path, default=Path("models/smollm2-reader"))
    p.add_argument("--examples", type=Path, required=True)
    p.add_argument("--natural", type=Path, default=Path("train/natural"))
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--seconds", type=float, default=480)
    p.add_argument("--write-seconds", type=float, default=80)
    p.add_argument("--tune-seconds", type=float, default=150)
    p.add_argument("--texts", type=int, default=16000, help="in all")
    p.add_argument("--expansions", type=int, default=1500)
    p.add_argument("--shard", type=int, default=1024, help="texts of one file")
    p.add_argument("--questions", type=int, default=8)
    p.add_argument("--sure", type=float, default=0.6, help="least probability of an answer that is kept")
    p.add_argument("--batch", type=int, default=1024)
    p.add_argument("--max-new", type=int, default=260)
    p.add_argument("--rows", type=int, default=16)
    p.add_argument("--length", type=int, default=2048)
    p.add_argument("--tune-steps", type=int, default=3000)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--lr", type=float, default=0.002)
    p.add_argument("--adam-lr", type=float, default=1e-4)
    p.add_argument("--seed", type=int, default=5)
    a = p.parse_args()
    began = time.time()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    torch.set_float32_matmul_precision("high")
    a.out.mkdir(parents=True, exist_ok=True)
    tok, lex = load_tokenizer(a.model), Lexicon(random.Random(a.seed), TRAIN)
    model = load_large(a.model, None).to(device)
    texts = write_texts(model, tok, lex, a.texts // 2, dtype, a.batch, a.max_new, began + a.write_seconds)
    merge_adapter_into(model, a.adapter)
    tune(model, a, time.time() + a.tune_seconds)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    known = known_texts(lex, a.examples, a.natural, a.expansions)
    texts = known + texts[:max(len(known), a.texts - len(known))]
    lex.rng.shuffle(texts)
    for n, first in enumerate(range(0, len(texts), a.shard)):
        if time.time() > began + a.seconds:
            break
        made = ask_and_answer(model, tok, texts[first:first + a.shard], a, dtype, began + a.seconds)
        part = a.out / f"{n}.part"
        with gzip.open(part, "wt", encoding="utf-8", compresslevel=1) as f:
            f.writelines(json.dumps(asdict(e), ensure_ascii=False) + "\n" for e in made)
        part.rename(a.out / f"{n}.jsonl.gz")
        for e in made[:3] if n % 8 == 0 else []:
            say(sample=e.context[:160], question=e.question, answer=e.answer)
    say(done=True, seconds=round(time.time() - began))


if __name__ == "__main__":
    main()
