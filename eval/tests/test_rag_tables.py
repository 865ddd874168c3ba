"""Questions over many documents: what is drawn, how it is asked, and what the tables say of known rows."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import io
import json
import os
import tempfile
import threading
import time
import unittest
from pathlib import Path

from eval import rag_questions, rag_tables
from eval.rag_questions import Nearest, Paragraph, Question, documents_of, draw, paragraphs_of, read_questions, write
from eval.rag_tables import Cell, Client, Rows, cells, options_of, row_of, tables
from eval.trained import TrainedOn
from train.trained_on import packed

ROOT = Path(__file__).parents[2]
PLACES = ["Dover", "Lisbon", "Oslo", "Turku", "Bergen", "Porto", "Leeds", "Malmo"]
NAMES = ["Anna", "Ruth", "Tom", "Paul", "Ida", "Nils", "Ada", "Olga"]
REST = "Some buttons were sold in the square, and the weather was mild while nobody complained about the ferry or its crew"


def text_of(n: int) -> str:
    return f"The captain {NAMES[n]} was born in {PLACES[n]} a long time ago. {REST} number {n}."


def squad(n: int) -> dict:
    asked = [dict(id="q0", question=f"Where was captain {NAMES[n]} born?", answers=[PLACES[n]])]
    asked.append(dict(id="q1", question="Who sold the moon?", answers=[]))
    return dict(id=f"squad2-Captains-{n:03}", dataset="squad2", context=text_of(n), questions=asked)


class Drawn(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.shared = Path(folder.name)
        (self.shared / "data").mkdir()
        (self.shared / "train").mkdir()
        rows = [squad(n) for n in range(6)]
        (self.shared / "data" / "squad2.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        story = "\n".join(f"{text_of(6)} Part {n} of it, {'and so on ' * 30}" for n in range(5)) + f"\n{text_of(7)}"
        asked = [dict(id="q0", question="Where was captain Olga born?", answers=["Malmo"])]
        asked.append(dict(id="q1", question="Where was captain Ada born?", answers=["Leeds"]))  # in several paragraphs
        with gzip.open(self.shared / "train" / "story.jsonl.gz", "wt") as file:
            file.write(json.dumps(dict(id="story-1", context=story, questions=asked)) + "\n")

    def test_one_paragraph_has_the_answer_and_no_other(self) -> None:
        paragraphs, questions = draw(self.shared, ["squad2", "story"], 100, 5, 1, [])
        self.assertEqual(len(questions), 7)
        for q in questions:
            self.assertTrue(any(a in paragraphs[q.gold].text for a in q.answers))
            self.assertFalse(any(a in paragraphs[n].text for n in q.others for a in q.answers))
            self.assertEqual(len({q.gold, *q.others}), 1 + len(q.others))
        [story] = [q for q in questions if q.source == "story"]
        self.assertEqual(story.question, "Where was captain Olga born?")
        # Of the same source first.
        first = next(q for q in questions if q.source == "squad2")
        self.assertEqual([paragraphs[n].source for n in first.others], ["squad2"] * 5)

    def test_what_was_trained_on_is_left_out(self) -> None:
        data = packed([text_of(2)])
        seen = [TrainedOn(data, known=True)]
        paragraphs, questions = draw(self.shared, ["squad2"], 100, 5, 1, seen)
        self.assertEqual(len(questions), 5)
        self.assertNotIn(text_of(2), [p.text for p in paragraphs])

    def test_held_articles_only(self) -> None:
        names = [f"squad_train-A{n}-000" for n in range(60)]
        with gzip.open(self.shared / "train" / "squad_train.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(dict(squad(0), id=name)) + "\n" for name in names)
        paragraphs, _ = draw(self.shared, ["squad_train"], 100, 5, 1, [])
        from train.reading_texts import article_of, split_of

        held = [n for n in names if split_of("squad_train", article_of("squad_train", n)) == "held"]
        self.assertTrue(0 < len(held) < 30)
        self.assertEqual([p.id for p in paragraphs], [f"{name}#0" for name in held])

    def test_the_same_file_from_the_same_seed(self) -> None:
        made = []
        for n, seed in enumerate((1, 1, 2)):
            path = self.shared / f"{n}.jsonl.gz"
            write(path, *draw(self.shared, ["squad2", "story"], 4, 3, seed, []))
            made.append(path.read_bytes())
        self.assertEqual(made[0], made[1])
        self.assertNotEqual(made[0], made[2])
        paragraphs, questions = read_questions(self.shared / "0.jsonl.gz")
        for q in questions:
            self.assertTrue(any(a in paragraphs[q.gold].text for a in q.answers))
            self.assertEqual(len(q.others), 3)

    def test_a_source_that_is_not_there(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            words = ["--draw", "--questions", str(self.shared / "q"), "--shared", str(self.shared), "--sources", "no"]
            self.assertEqual(rag_tables.main(words), 2)
        self.assertIn("no.jsonl", said.getvalue())

    def test_paragraphs_have_all_words(self) -> None:
        text = "\n".join(f"Line {n} has {'some words ' * (n % 40)}and ends." for n in range(60))
        parts = paragraphs_of(text)
        self.assertGreater(len(parts), 3)
        self.assertEqual(" ".join(parts).split(), text.split())
        self.assertLessEqual(max(len(p.split()) for p in parts), rag_questions.MOST_WORDS)

    def test_nearest_shares_rare_words(self) -> None:
        scores = Nearest(["the red boat", "the blue boat", "the the the"]).scores("a red boat")
        self.assertTrue(scores[0] > scores[1] > scores[2] == 0.0)


class Documents(unittest.TestCase):
    paragraphs = [Paragraph(f"p{n}", "", "s", f"text {n}") for n in range(10)]
    question = Question("q", "s", "g", "Who?", ["x"], 4, [0, 1, 2, 3, 5, 6, 7])

    def test_fewer_are_among_more(self) -> None:
        few, many = (documents_of(self.paragraphs, self.question, n) for n in (4, 8))
        self.assertEqual((len(few), len(many)), (4, 8))
        names = {d["id"] for d in few}
        self.assertEqual(names, {"p4", "p0", "p1", "p2"})
        self.assertLess(names, {d["id"] for d in many})
        without = {d["id"] for d in documents_of(self.paragraphs, self.question, 4, with_gold=False)}
        self.assertEqual(without, {"p0", "p1", "p2", "p3"})

    def test_the_right_one_stands_anywhere(self) -> None:
        places = set()
        for n in range(40):
            asked = Question(f"q{n}", "s", "g", "Who?", ["x"], 4, [0, 1, 2])
            places.add([d["id"] for d in documents_of(self.paragraphs, asked, 4)].index("p4"))
        self.assertEqual(places, {0, 1, 2, 3})


def row(name: str, method: str, answer: str | None, count: int = 4, there: bool = True, **more: object) -> dict:
    return dict(id=name, source=more.pop("source", "squad2"), group=name[:1], question="?", gold=["yes it is"],
                documents=count, method=method, gold_there=there, answer=answer, **more)  # fmt: skip


class Tables(unittest.TestCase):
    def test_differences_are_of_the_same_questions(self) -> None:
        right, wrong = "Yes, it is!", "no"
        rows = [row(f"{n}", "experts", right, joint=wrong if n == 3 else right, confidence=0.9) for n in range(4)]
        rows += [row(f"{n}", "top1", right if n < 2 else wrong) for n in range(4)]
        rows += [row(f"{n}", "concat", right if n < 1 else None, alone_seconds=0.25) for n in range(4)]
        rows.append(row("9", "concat", right))  # the others were not asked
        rows.append(row("1", "experts", None, there=False, joint=None))
        text = "\n".join(tables(rows))
        self.assertRegex(text, r"4 experts +4 +100\.0 \(100\.0 to 100\.0\) 100\.0   0\.0")
        self.assertRegex(text, r"4 experts, none right +1 +100\.0")  # null is right
        self.assertRegex(text, r"4 concat +5 +40\.0 .* 60\.0 +0\.250 +0")
        self.assertRegex(text, r"4: experts less top1, 4 questions:  50\.0")
        self.assertRegex(text, r"4: with the surer document less without, 4 questions, 1 changed:  25\.0")
        self.assertNotIn("no rule was chosen on", text)

    def test_new_sources_and_errors(self) -> None:
        rows = [row("1", m, "yes it is", source="covidqa") for m in ("top1", "concat")]
        rows.append(row("1", "experts", "yes it is", source="covidqa", joint="no"))
        bad = row("2", "experts", None)
        del bad["answer"]
        rows.append(dict(bad, error="gone"))
        text = "\n".join(tables(rows))
        self.assertRegex(text, r"4 experts +2 +50\.0 .* 1\n")
        self.assertIn("sources no rule was chosen on, 1 questions, 1 changed: 100.0", text)


class Asked(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_blocks_have_all_ways(self) -> None:
        a = options_of(["--questions", "q", "-m", "m", "--out", "o", "--methods", "experts,top1", "--documents", "2,4",
                        "--without-gold", "4"])  # fmt: skip
        asked = [Question(f"{n}", "s", "g", "?", ["x"], 0) for n in range(5)]
        made = cells(a, asked, block=2)
        self.assertEqual(len(made), len(set(made)))
        self.assertEqual(len(made), 5 * 4 + 3)
        first = made[: 2 * 4 + 1]
        self.assertEqual({c.id for c in first}, {"0", "1"})
        self.assertIn(Cell("0", "experts", 4, False), first)

    def test_rows_are_kept_and_errors_asked_again(self) -> None:
        path = self.folder / "rows.jsonl"
        asked = Question("1", "s", "g", "Who?", ["x"], 0)
        good, bad, new = (Cell(name, "experts", 4, True) for name in "123")
        rows = Rows(path)
        rows.add(row_of(good, asked, {"answer": "x", "trace": {"joint": "y", "tokens": []}, "dropped": ["d"]}))
        rows.add(row_of(bad, asked, {"error": "busy"}))
        rows.file.close()
        with path.open("ab") as file:
            file.write(b'{"id": "3", "method"')  # killed while it wrote
        again = Rows(path)
        self.addCleanup(again.file.close)
        self.assertEqual(again.missing([good, bad, new]), [bad, new])
        kept = again.kept[good]
        self.assertEqual((kept["joint"], kept["answer"], kept["dropped"]), ("y", "x", 1))
        again.add(row_of(new, asked, {"answer": None}))
        self.assertEqual([json.loads(line)["id"] for line in path.read_text().splitlines()], ["1", "2", "3"])

    def test_a_busy_server_is_asked_again(self) -> None:
        replies = [(429, b"{}"), (503, b"{}"), (200, b'{"rows":[{"answer":"x"}]}'), (400, b'{"error":{"message":"no"}}')]
        replies.append((200, b"not JSON"))

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                status, body = replies.pop(0)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            client = Client(server.server_address[1])
            deadline = time.monotonic() + 600
            self.assertEqual(client.row({}, deadline), {"answer": "x"})
            self.assertEqual(client.row({}, deadline), {"error": {"message": "no"}})
            self.assertIn("not understood", client.row({}, deadline)["error"])
            client.connection.close()
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
        self.assertIn("error", client.row({}, deadline))  # nobody is there any more

    @unittest.skipUnless(os.environ.get("BANYAN"), "needs BANYAN, the path of the program")
    def test_the_whole_way(self) -> None:
        paragraphs = [Paragraph(f"p{n}", "", "squad2", text_of(n)) for n in range(8)]
        asked = [
            Question(f"q{n}", "squad2", f"g{n}", f"Where was captain {NAMES[n]} born?", [PLACES[n]], n,
                     [k for k in range(8) if k != n])  # fmt: skip
            for n in range(3)
        ]
        source, out = self.folder / "q.jsonl.gz", self.folder / "out"
        write(source, paragraphs, asked)
        words = ["--questions", str(source), "--banyan", os.environ["BANYAN"], "--out", str(out), "-m",
                 str(ROOT / "models" / "banyan-reader-34m.gguf"), "--documents", "3", "--methods",
                 "experts,top1,kv-concat", "--without-gold", "3", "--requests", "4", "--timed", "1"]  # fmt: skip
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()) as errors:
            code = rag_tables.main([*words, "--", "--threads", "1"])
        self.assertEqual(code, 0, errors.getvalue())
        self.assertIn("11 of 11 answers", said.getvalue())
        rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
        experts = [r for r in rows if r["method"] == "experts" and r["gold_there"]]
        self.assertEqual(sorted(r["id"] for r in experts), ["q0", "q1", "q2"])
        for r in experts:
            said_first = r["joint"]
            self.assertTrue(r["answer"] in [c["answer"] for c in r["candidates"]] or r["answer"] is None, r)
            self.assertTrue(said_first is None or r["candidates"][0]["answer"] == said_first, r)
        self.assertTrue(any("alone_seconds" in r for r in experts))
        with contextlib.redirect_stdout(io.StringIO()) as again:  # nothing is left to ask
            self.assertEqual(rag_tables.main([*words[:3], "no-program", *words[4:], "--", "--threads", "1"]), 0)
        self.assertEqual(again.getvalue(), (out / "table.txt").read_text())
        with contextlib.redirect_stderr(io.StringIO()) as other:
            self.assertEqual(rag_tables.main([*words, "--", "--threads", "2"]), 2)
        self.assertIn("other settings", other.getvalue())


if __name__ == "__main__":
    unittest.main()
