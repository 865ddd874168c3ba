"""Answers stand in documents: in shuffled, cut off and contradicting ones; what else documents say is listed.
BANYAN_TEST_ROUNDS=N asks N times as many questions."""
import collections
import json
import math
import os
import random
import re
import subprocess
import sys
import unittest

from harness import MODEL, ROOT, RagTest, timeless

NAMES = ["Mila", "Jonas", "Ada", "Tom Reed", "Dr. Helen Okafor", "Anna Berg", "Zo\u00eb", "Bj\u00f6rn \u00d6berg"]
MONTHS = ["January", "April", "May", "August", "October"]
PLACES = ["Greenwich", "Nice", "Grenoble", "Leeds", "L\u00fcbeck", "Nizhny"]
FILLER = ["Some buttons were sold in the square.", "The weather was mild; nobody complained.", "Tickets cost 12 euros on weekdays.",
          "The museum opened in 1818.", "Bake it at 230 degrees."]


def fact(random_, kind, name):
    if kind == "birthday":
        return f"{name}'s birthday is on {random_.randint(1, 28)} {random_.choice(MONTHS)} {random_.randint(1810, 2018)}."
    if kind == "code":
        return f"The code of {name}'s locker is {random_.choice(['LMB-K', 'LMB-A', 'PR', 'KT-2'])} {random_.randint(100, 999)}."
    return f"The night train of {name} leaves {random_.choice(PLACES)} station at {random_.randint(1, 23)}:{random_.randint(10, 59)}."


QUESTIONS = {"birthday": "When is {}'s birthday?", "code": "What is the code of {}'s locker?", "train": "Which station does the train of {} leave?"}


def record(number):
    """A question with two to four short notes: some answer it, some otherwise, some are cut off, most are about something else."""
    random_ = random.Random(number)
    name, kind = random_.choice(NAMES), random_.choice(list(QUESTIONS))
    notes = [fact(random_, kind, name) for _ in range(random_.choice([0, 1, 1, 2, 2, 3]))]
    while len(notes) < 2 or random_.random() < 0.4 and len(notes) < 4:
        notes.append(fact(random_, random_.choice(list(QUESTIONS)), random_.choice(NAMES)))
    texts = []
    for note in notes:
        text = " ".join(random_.sample([note, random_.choice(FILLER)], 2))
        if random_.random() < 0.3:
            text = text[random_.randint(0, 9):random_.randint(len(text) // 2, len(text))]
        texts.append(text.replace(" ", "\n", 1) if random_.random() < 0.3 else text)
    random_.shuffle(texts)
    return {"id": number, "question": QUESTIONS[kind].format(name),
            "documents": [{"id": f"d{i}", "text": text} for i, text in enumerate(texts)]}


def spaced(text):
    return " ".join(text.split())


def comparable(text):
    return spaced(re.sub(r"[^\w\s]", "", text)).lower()


LOG_ODDS = {"feature": "log_odds", "scale": 0.7, "offset": -0.5}


class Grounded(RagTest):
    def check(self, rows, records):
        """Returns how many answers there are, of several documents, with alternatives, and none."""
        counts = {"answers": 0, "of several": 0, "disputed": 0, "none": 0}
        for row, asked in zip(rows, records, strict=True):
            texts = {d["id"]: d["text"] for d in asked["documents"]}
            others = row.get("alternatives", [])
            self.assertTrue(0 <= row.get("confidence", 0.5) <= 1, row)
            self.assertTrue("confidence" in row or row["answer"] is None, row)
            for citation in row["citations"] + [c for other in others for c in other["citations"]]:
                self.assertEqual(texts[citation["document"]][citation["begin"]:citation["end"]], citation["text"])
            for other in others:
                self.assertTrue(other["citations"], row)
                self.assertTrue(all(spaced(c["text"]) == other["answer"] for c in other["citations"]), row)
                self.assertNotEqual(other["answer"], row["answer"])
            counts["disputed"] += bool(others)
            if row["answer"] is None:
                counts["none"] += 1
                self.assertTrue(row["reason"], row)
                self.assertEqual(row["citations"], [])
                continue
            self.assertNotIn("reason", row)
            self.assertEqual(row["answer"], "; ".join(spaced(c["text"]) for c in row["citations"]), row)
            counts["answers"] += 1
            counts["of several"] += len(row["citations"]) > 1
        return counts

    def check_sure(self, rows):
        """No document is clearly surer of something else than the row is of its answer."""
        compared = 0
        for row in rows:
            for other in row.get("alternatives", []):
                self.assertGreaterEqual(other["confidence"], 0.1499, row)
                if row["answer"] is None:
                    continue
                compared += 1
                self.assertLessEqual(other["confidence"], 1.2 * row["confidence"] + 0.001, row)
            self.check_rule(row, row["trace"])
        return compared

    def check_rule(self, row, trace):
        """The answer follows from what the trace says: the joint one, or that of a clearly surer document."""
        if trace["joint"] is None:
            self.assertIsNone(row["answer"], row)
            return
        together, *alone = trace["candidates"]
        self.assertEqual(together["answer"], trace["joint"], row)
        surest = max(alone, key=lambda candidate: candidate["evidence"], default=together)
        replaces = surest["evidence"] > 1.2 * together["evidence"]
        self.assertEqual(comparable(row["answer"]), comparable((surest if replaces else together)["answer"]), row)
        # The shipped card has nothing that was measured for rag.
        self.assertAlmostEqual(row["confidence"], trace["evidence"], delta=6e-5)
        self.assertLessEqual(sum(candidate["evidence"] for candidate in trace["candidates"]), 1 + 1e-9)

    def test_nothing_is_said_that_no_document_says(self):
        counts, records = collections.Counter(), []
        parts = 2 * int(os.environ.get("BANYAN_TEST_ROUNDS", "1"))
        for part in range(parts):  # each has the time of a command
            records = [record(number) for number in range(250 * part, 250 * part + 250)]
            rows = self.rag(self.write("in.jsonl", records), "--max-new", "24")
            counts.update(self.check(rows, records))
            counts["compared"] += self.check_sure(rows)
        for what, least in (("answers", 75), ("none", 7), ("disputed", 12), ("compared", 7)):
            self.assertGreater(counts[what], least * parts, counts)
        for more in (["--max-new", "3"], ["--rule", "mixture", "--abstention", "0"], ["--switch", "token", "--relevance", "equal"]):
            few = records[:40]
            rows = self.rag(self.write("few.jsonl", few), *more)
            self.assertGreater(self.check(rows, few)["answers"], 5, more)

    def test_the_same_rows_alone(self):
        source = self.write("in.jsonl", [record(number) for number in range(16)])
        rows = [timeless(row) for row in self.rag(source)]
        for more in (["--strategy", "flat", "--one-by-one", "--threads", "1"], ["--strategy", "stacked", "--batch-rows", "40"]):
            self.assertEqual([timeless(row) for row in self.rag(source, *more)], rows, more)
        free = [timeless(row) for row in self.rag(source, "--no-copy")]
        self.assertEqual([timeless(row) for row in self.rag(source, "--no-copy", "--strategy", "flat", "--one-by-one")], free)
        for row in free:
            self.assertNotIn("confidence", row)

    def test_one_question_is_answered_as_in_a_job(self):
        """On the command line documents answer alone while the experts still write."""
        found = collections.Counter()
        for number in (5, 9, 10, 11, 13, 14):  # in some of them a document's own answer replaces the joint one
            asked, folder, index = record(number), f"notes{number}", f"index{number}"
            for document in asked["documents"]:
                self.write(f"{folder}/{document['id']}.txt", document["text"])
            self.run_banyan("rag", "index", index, folder, "--quiet", "--new")
            more = ("--index", index, *(["--verify"] if number == 10 else []))
            [row] = self.rag(self.write("in.jsonl", [{"id": "question", "question": asked["question"]}]), *more)
            one = self.run_banyan("rag", "-m", MODEL, asked["question"], *more, "--json", "--quiet", "--kv-store", "none").stdout
            self.assertEqual(timeless(json.loads(one)), timeless(row))
            found["replaced"] += row["trace"]["joint"] != row["answer"]
            found["scored"] += bool(row["trace"]["candidates"]) and not row["trace"]["candidates"][0]["documents"]
        self.assertGreater(found["replaced"], 1, found)
        self.assertGreater(found["scored"], 0, found)

    def model_with(self, name, **of_rag):
        """The shipped model with another card."""
        card = {"copies": True, "confidence": {"ask": {"answer": LOG_ODDS, "null": LOG_ODDS}, **of_rag}}
        model = self.path(name)
        subprocess.run([sys.executable, "-m", "train.gguf_set", MODEL, "banyan.card", json.dumps(card), "--out", model],
                       cwd=ROOT, check=True, capture_output=True)
        return model

    def test_confidence_measured_for_rag_changes_no_answer(self):
        source = self.write("in.jsonl", [record(number) for number in range(60)])
        measured = {"feature": "log_odds", "scale": 0.6, "offset": 1.5}
        models = self.model_with("plain.gguf"), self.model_with("rag.gguf", rag={"answer": measured})
        plain, mapped = ([timeless(row) for row in self.rag(source, model=model)] for model in models)
        surer, disputed = 0, 0
        for before, after in zip(plain, mapped, strict=True):
            others = [row.get("alternatives", []) for row in (before, after)]
            without = [[{**other, "confidence": 0} for other in some] for some in others]
            self.assertEqual(without[0], without[1])
            shown = [{name: row[name] for name in row if name not in ("confidence", "alternatives")} for row in (before, after)]
            self.assertEqual(shown[0], shown[1])
            if before["answer"] is None:
                self.assertEqual(before.get("confidence"), after.get("confidence"))
                continue
            evidence = max(before["trace"]["evidence"], 1e-12)
            odds = max(-30, min(12, math.log(evidence) - math.log(-math.expm1(min(math.log(evidence), -1e-9)))))
            self.assertAlmostEqual(after["confidence"], 1 / (1 + math.exp(-(0.6 * odds + 1.5))), delta=1e-4)
            self.assertLessEqual(sum(o["confidence"] for o in others[1]) + after["confidence"], 1.001)
            surer += after["confidence"] > before["confidence"]
            disputed += bool(others[1])
        self.assertGreater(surer, 20)
        self.assertGreater(disputed, 5)

    def test_documents_that_contradict_each_other(self):
        texts = {"old": "The secret code of the yacht Otter is KT-4821.", "new": "The secret code of the yacht Otter is XW-1100.",
                 "other": "Some buttons were sold in the square."}
        asked = {"id": 1, "question": "Which secret code does the yacht Otter have?",
                 "documents": [{"id": name, "text": text} for name, text in texts.items()]}
        [row] = self.rag(self.write("in.jsonl", [asked]), "--relevance", "equal")
        [other] = row["alternatives"]
        self.assertEqual({row["answer"], other["answer"]}, {"KT-4821", "XW-1100"})
        self.assertEqual({c["document"] for c in row["citations"] + other["citations"]}, {"old", "new"})
        self.assertLessEqual(row["confidence"] + other["confidence"], 1.001)
        # A third document that agrees with one of them makes it surer.
        asked["documents"].append({"id": "again", "text": "As we know, the secret code of the yacht Otter is KT-4821."})
        [three] = self.rag(self.write("three.jsonl", [asked]), "--relevance", "equal")
        sure = {three["answer"]: three["confidence"], **{o["answer"]: o["confidence"] for o in three["alternatives"]}}
        self.assertGreater(sure["KT-4821"], sure["XW-1100"])
        # Nobody says it.
        asked["documents"] = asked["documents"][2:3]
        [none] = self.rag(self.write("none.jsonl", [asked]))
        self.assertEqual((none["answer"], none["citations"]), (None, []))
        self.assertIn("no document", none["reason"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
