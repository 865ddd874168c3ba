"""Data sets as they are published: small files of each form, what becomes of them, and errors that name the place."""

from __future__ import annotations

import csv
import gzip
import json
import tempfile
import unittest
from pathlib import Path

from eval import published
from eval.data import BadRow, get, read_file
from eval.form import set_of

QAS = [
    dict(id="1", question="Who?", answers=[dict(text="Ruth", answer_start=0), dict(text="Ruth", answer_start=0)]),
    dict(id="2", question="Why?", answers=[], is_impossible=True, plausible_answers=[dict(text="1840")]),
]
SQUAD = dict(version="v2.0", data=[dict(title="Mill", paragraphs=[dict(context="Ruth sold it.", qas=QAS)])])
TURNS = [
    dict(id="t0", question="Who was she?", followup="y", yesno="x", answers=[dict(text="a miller", answer_start=0)]),
    dict(id="t1", question="Was she rich?", followup="n", yesno="x", answers=[dict(text="CANNOTANSWER")]),
    dict(id="t2", question="Where?", followup="n", yesno="x", answers=[dict(text="by the river")]),
]
for turn in TURNS:
    turn["orig_answer"] = turn["answers"][0]
QUAC = dict(
    data=[
        dict(
            title="Ruth",
            section_title="Life",
            background="b",
            paragraphs=[dict(id="C_1", context="Ruth was a miller by the river. CANNOTANSWER", qas=TURNS)],
        )
    ]
)
NO_DATE = dict(day="", month="", year="")
DROP = {
    "nfl_1": dict(
        passage="Ann and Bo scored 3 goals on 4 May 1901.",
        qa_pairs=[
            dict(question="How many?", query_id="a", answer=dict(number="3", date=NO_DATE, spans=[])),
            dict(
                question="Who?",
                query_id="b",
                answer=dict(number="", date=NO_DATE, spans=["Ann", "Bo"]),
                validated_answers=[dict(number="", date=NO_DATE, spans=["Bo", "Ann"])],
            ),
            dict(
                question="When?",
                query_id="c",
                answer=dict(number="", date=dict(day="4", month="May", year="1901"), spans=[]),
            ),
        ],
    )
}
LONGHEALTH = {
    "patient_01": dict(
        name="A",
        birthday="1.1.1950",
        diagnosis="D",
        texts=dict(text_0="First letter.", text_1="Second letter."),
        questions=[
            dict(
                No=0,
                question="Which?",
                correct="c",
                **{f"answer_{x}": x for x in "abcde"},
                answer_location=dict(text_0={}),
            )
        ],
    )
}
HOTPOT = [
    dict(
        _id="h",
        question="Who?",
        answer="Ann",
        type="bridge",
        level="hard",
        supporting_facts=[["B", 0]],
        context=[["A", ["One. ", "Two."]], ["B", ["Ann ran."]]],
    )
]
WIKI = [dict(HOTPOT[0], _id="w", evidences=[["B", "ran", "Ann"]])]
MUSIQUE = dict(
    id="2hop__1_2",
    question="Who?",
    answer="Ann",
    answer_aliases=["Anne"],
    answerable=True,
    question_decomposition=[],
    paragraphs=[
        dict(idx=0, title="A", paragraph_text="One.", is_supporting=False),
        dict(idx=1, title="B", paragraph_text="Ann ran.", is_supporting=True),
    ],
)
OA_MINE = [
    dict(
        asin="B1",
        title="Acme green tea 20 bags",
        entities=[
            dict(startOffset=0, endOffset=4, label="Brand", value="Acme"),
            dict(startOffset=5, endOffset=10, label="Flavor", value="green"),
        ],
    ),
    dict(asin="B2", title="Black tea", entities=[dict(startOffset=0, endOffset=5, label="Flavor", value="Black")]),
]
LONGBENCH = dict(
    input="Question: Where? Type:",
    context="Question: Who? Type: Person",
    answers=["Place"],
    length=5,
    dataset="trec",
    language="en",
    all_classes=["Person", "Place"],
    _id="x1",
)
RACE = dict(
    id="high1.txt", article="Bo ran.", questions=["Who ran?"], options=[["Ann", "Bo", "Cy", "Di"]], answers=["B"]
)


class Published(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def test_squad(self):
        name, kind, (row,) = read_file(self.write("dev-v2.0.json", json.dumps(SQUAD)))
        self.assertEqual((name, kind, row["context"]), ("squad2", "questions", "Ruth sold it."))
        self.assertEqual([q["answers"] for q in row["questions"]], [["Ruth"], []])

    def test_compressed(self):
        path = self.folder / "dev-v2.0.json.gz"
        path.write_bytes(gzip.compress(json.dumps(SQUAD).encode()))
        self.assertEqual(read_file(path)[0], "squad2")

    def test_quac_has_the_turns_before(self):
        name, _, (row,) = read_file(self.write("val_v0.2.json", json.dumps(QUAC)))
        self.assertEqual((name, row["context"]), ("quac", "Ruth was a miller by the river."))
        self.assertEqual([q["answers"] for q in row["questions"]], [["a miller"], [], ["by the river"]])
        self.assertEqual(row["questions"][0]["question"], "Who was she?")
        self.assertEqual(row["questions"][2]["question"], "Who was she? a miller\nWas she rich? null\nWhere?")

    def test_drop_wants_all_spans(self):
        name, _, (row,) = read_file(self.write("drop_dataset_dev.json", json.dumps(DROP)))
        number, spans, date = row["questions"]
        self.assertEqual((name, number["answers"], date["answers"]), ("drop", ["3"], ["4 May 1901"]))
        self.assertEqual((spans["answers"], spans["items"]), (["Ann, Bo", "Bo, Ann"], [["Ann"], ["Bo"]]))
        self.assertNotIn("items", number)

    def test_longhealth(self):
        name, _, (row,) = read_file(self.write("benchmark_v5.json", json.dumps(LONGHEALTH)))
        self.assertEqual((name, row["context"]), ("longhealth", "First letter.\n\nSecond letter."))
        self.assertEqual((row["questions"][0]["choices"], row["questions"][0]["right"]), (list("abcde"), 2))
        LONGHEALTH["patient_01"]["questions"][0]["correct"] = "z"
        self.addCleanup(LONGHEALTH["patient_01"]["questions"][0].update, correct="c")
        with self.assertRaisesRegex(BadRow, "'patient_01', question 1: expected 'correct' .* found 'z'"):
            read_file(self.write("bad.json", json.dumps(LONGHEALTH)))

    def test_hotpotqa_and_2wiki(self):
        for name, data in (("hotpotqa", HOTPOT), ("2wikimultihopqa", WIKI)):
            found, kind, (row,) = read_file(self.write(f"{name}.json", json.dumps(data)))
            self.assertEqual((found, kind, row["answers"]), (name, "documents", ["Ann"]))
            self.assertEqual(
                [(d["text"], d["gold"]) for d in row["documents"]], [("One. Two.", False), ("Ann ran.", True)]
            )

    def test_musique(self):
        found, kind, (row,) = read_file(self.write("musique_ans_v1.0_dev.jsonl", json.dumps(MUSIQUE) + "\n"))
        self.assertEqual((found, kind, row["answers"]), ("musique", "documents", ["Ann", "Anne"]))
        self.assertEqual([d["gold"] for d in row["documents"]], [False, True])

    def test_narrativeqa(self):
        with (self.folder / "qaps.csv").open("w", newline="") as file:
            csv.writer(file).writerows(
                [
                    ["document_id", "set", "question", "answer1", "answer2", "question_tokenized"],
                    ["d1", "test", "Who, then?", "Ann", "Anne", "Who , then ?"],
                    ["d2", "train", "Where?", "Here", "", "Where ?"],
                ]
            )
        with self.assertRaisesRegex(BadRow, "expected summaries.csv"):
            read_file(self.folder)
        self.write(
            "third_party/wikipedia/summaries.csv",
            'document_id,set,summary,summary_tokenized\nd1,test,"Ann ran,\nfar.",x\nd2,train,Here.,x\n',
        )
        name, kind, rows = read_file(self.folder)
        self.assertEqual((name, kind, [r["context"] for r in rows]), ("narrativeqa", "questions", ["Ann ran,\nfar."]))
        self.assertEqual(rows[0]["questions"][0]["answers"], ["Ann", "Anne"])
        self.assertEqual(read_file(self.folder / "qaps.csv")[0], "narrativeqa")

    def test_race(self):
        self.write("RACE/high/1.txt", json.dumps(RACE))
        name, kind, (row,) = read_file(self.folder / "RACE")
        self.assertEqual((name, kind, row["id"]), ("race", "questions", "race-high-1"))
        self.assertEqual((row["questions"][0]["choices"][1], row["questions"][0]["right"]), ("Bo", 1))
        self.write("RACE/high/2.txt", json.dumps(dict(RACE, options=[])))
        with self.assertRaisesRegex(BadRow, r"2.txt, line 1: expected as many options .* \(1\), found 0"):
            read_file(self.folder / "RACE")
        self.write("RACE/high/2.txt", json.dumps(dict(RACE, answers=["E"])))
        with self.assertRaisesRegex(BadRow, "2.txt, line 1: expected the letter of an option, found 'E'"):
            read_file(self.folder / "RACE")

    def test_oa_mine(self):
        path = self.write("annotations/green_tea.jsonl", "".join(json.dumps(r) + "\n" for r in OA_MINE))
        for place in (path, self.folder / "annotations"):
            name, kind, rows = read_file(place)
            self.assertEqual((name, kind, rows[0]["category"]), ("oa_mine", "values", "Green Tea"))
            self.assertEqual(rows[0]["attributes"], ["Brand", "Flavor"])
            self.assertEqual(
                [r["values"] for r in rows], [{"Brand": ["Acme"], "Flavor": ["green"]}, {"Flavor": ["Black"]}]
            )

    def test_ae_110k(self):
        lines = ["Acme boots\u0001Brand\u0001Acme", "Acme boots\u0001Season\u0001NULL", "Red hat\u0001Color\u0001Red"]
        name, kind, rows = read_file(self.write("publish_data.txt", "\n".join(lines) + "\n"))
        self.assertEqual((name, kind), ("ae_110k", "values"))
        self.assertEqual(rows[0]["values"], {"Brand": ["Acme"], "Season": []})
        self.assertEqual([r["attributes"] for r in rows], [["Brand", "Season"], ["Color"]])
        with self.assertRaisesRegex(BadRow, "line 4: expected title, attribute and value.*found 2"):
            read_file(self.write("bad.txt", "\n".join([*lines, "Red hat\u0001Color"])))

    def test_longbench(self):
        name, kind, (row,) = read_file(self.write("trec.jsonl", json.dumps(LONGBENCH) + "\n"))
        self.assertEqual((name, kind, row["id"]), ("trec", "questions", "longbench-x1"))
        self.assertEqual(
            (row["questions"][0]["answers"], row["questions"][0]["choices"]), (["Place"], ["Person", "Place"])
        )
        plain = dict(LONGBENCH, all_classes=None, dataset="hotpotqa")
        self.assertNotIn("choices", read_file(self.write("h.jsonl", json.dumps(plain)))[2][0]["questions"][0])

    def test_our_own_rows_are_still_read(self):
        row = dict(id="a", context="x", questions=[dict(id="1", question="Who?", answers=["Ruth"])])
        path = self.write("mine.jsonl", json.dumps(row) + "\n")
        self.assertEqual(set_of(str(path), None), ("mine", "questions", [row]))
        self.assertEqual(get(str(path), None), ("questions", [row]))

    def test_what_does_not_fit_is_said(self):
        for name, text, said in (
            ("x.json", "{", "x.json: expected JSON"),
            ("x.json", '{"a": 1}', "x.json: expected a published file .* found an object with 'a'"),
            (
                "x.json",
                json.dumps(dict(data=[dict(title="T", paragraphs=[dict(qas=QAS)])])),
                "'T', paragraph 1: expected 'context', a text, found nothing",
            ),
            (
                "x.json",
                json.dumps([dict(HOTPOT[0], context=[["A", "One."]])]),
                r"question 1, document 1: expected \[title, \[sentences\]\]",
            ),
            (
                "x.jsonl",
                json.dumps(dict(MUSIQUE, paragraphs=[{}])),
                "x.jsonl, line 1: expected 'paragraph_text', a text, found nothing",
            ),
            ("x.jsonl", json.dumps(MUSIQUE) + "\n{", "x.jsonl, line 2"),
        ):
            with self.assertRaisesRegex(BadRow, said):
                read_file(self.write(name, text))
        (self.folder / "empty").mkdir()
        with self.assertRaisesRegex(published.BadFile, "expected qaps.csv"):
            published.read(self.folder / "empty")


if __name__ == "__main__":
    unittest.main()
