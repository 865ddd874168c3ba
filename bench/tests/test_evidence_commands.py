"""Evidence before it is measured: every command of the table is one that the program, or the module, takes; a run that
was ended is taken up; what a run on a GPU will take."""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import pathlib
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr
from unittest import mock

from bench.evidence import documents, values
from bench.evidence.page import as_json, claim_rows
from bench.evidence.papers import CLAIMS, command_of
from bench.evidence.parts import planned_commands, planned_tables
from bench.evidence.predict import JOBS, SHAPES, cell_seconds, forest, plan_text, refused
from bench.evidence.resume import take_beside, take_up
from bench.evidence.runner import ROOT, Benches, Cell, Clock, Ended, Failed, Outcome, Runner, Sweep
from bench.evidence.sets import counts_of, write_sets
from bench.evidence.sizes import SIZES
from bench.evidence.sweeps import make_sweeps
from bench.evidence.verdicts import Results, Table
from eval.extraction import is_test
from eval.judge import ALL
from train.extract_real import held_name

BANYAN = os.environ.get("BANYAN", "")


def settings(**more) -> argparse.Namespace:
    usual = dict(
        banyan=BANYAN,
        sets=pathlib.Path("build/evidence/sets"),
        options=[],
        real="MODEL.gguf",
        real_adapter="ADAPTER",
        extractors=["A.gguf=ADAPTER", "B.gguf"],
        judge="JUDGE.gguf",
        book="book.txt",
        encoder="ENCODER",
        reranker="RERANKER",
        data=None,
        price=0.1,
        draws=10,
    )
    return argparse.Namespace(**dict(usual, **more))


class Parsed(Exception):
    pass


def parsed_by_module(words: list[str]) -> str:
    """What the parser of `python3 -m MODULE …` says of the words; "" when it takes them. Nothing is run."""
    original = argparse.ArgumentParser.parse_args

    def parse(parser, *rest, **more):
        original(parser, *rest, **more)
        raise Parsed

    said = io.StringIO()
    with (
        mock.patch.object(argparse.ArgumentParser, "parse_args", parse),
        mock.patch.object(sys, "argv", words),
        redirect_stderr(said),
    ):
        try:
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        except Parsed:
            return ""
        except SystemExit as end:
            return f"{end.code}: {said.getvalue()}"
    return "it parsed nothing"


class Commands(unittest.TestCase):
    def commands(self) -> list[str]:
        out = []
        for name, size in SIZES.items():
            planned = planned_commands(settings(options=["--device", "cuda"] if name == "gpu" else []), size)
            out += [command for commands in planned.values() for command in commands]
            out += [command_of(claim, Results({}, {}, planned)) for claim in CLAIMS]
        return list(dict.fromkeys(out))

    def test_every_claim_has_one(self):
        for size in SIZES.values():
            results = Results({}, {}, planned_commands(settings(), size))
            for row in claim_rows(results):
                self.assertRegex(row[3], r"^(banyan|python3 -m) ", row[1])

    def test_modules_take_theirs(self):
        found = [shlex.split(c)[2:] for c in self.commands() if c.startswith("python3 -m ")]
        self.assertGreater(len(found), 20)
        for words in found:
            self.assertEqual(parsed_by_module(words), "", words)
        self.assertIn("unrecognized arguments", parsed_by_module(["eval.judge", "--check", "-m", "M", "--nonsense"]))

    def test_forests_are_readable(self):
        for command in self.commands():
            words = shlex.split(command)
            if words[:3] == ["banyan", "bench", "tree"]:
                nodes, tokens = forest(words[3])
                self.assertEqual(len(nodes), len(tokens), command)
        for wrong in ("8 questions", "| 8", "8 x 8 | 3", "0 questions | 3, 4"):
            with self.assertRaises(ValueError):
                forest(wrong)
        self.assertEqual(forest("2 documents x 3 questions | 8, 40, 5 tokens"), ([1, 2, 6], [8, 40, 5]))

    @unittest.skipUnless(BANYAN, "BANYAN does not name the program")
    def test_the_program_takes_its_own(self):
        benches = [shlex.split(c)[2:] for c in self.commands() if c.startswith("banyan bench ")]
        self.assertGreater(len(benches), 200)
        self.assertEqual(refused(BANYAN, [Cell(0, words, dict) for words in benches]), {})
        wrong = refused(BANYAN, [Cell(0, ["squad2", "--nonsense"], dict), Cell(0, ["race", "--documents", "0"], dict)])
        self.assertEqual(sorted(wrong), ["race", "squad2"])
        others = [shlex.split(c) for c in self.commands() if c.startswith("banyan ") and " bench " not in c]
        self.assertGreaterEqual(len(others), 2)
        for words in others:  # all options are right: what is missing is the file
            nowhere = [re.sub(r".*(codes|hops|pages|everyday)[\w-]*\.jsonl$", "nowhere.jsonl", w) for w in words[1:]]
            done = subprocess.run([BANYAN, *nowhere], capture_output=True, text=True, cwd=ROOT, check=False)
            self.assertEqual(done.returncode, 2, words)
            self.assertRegex(done.stderr, r"nowhere\.jsonl: .*(no such|cannot read)", words)

    @unittest.skipUnless(BANYAN, "BANYAN does not name the program")
    def test_files_of_commands_are_written(self):
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place, "sets")
            write_sets(folder, "tiny")
            made = {path.name for path in folder.iterdir()}
            rows = (folder / "codes.jsonl").read_text().splitlines()
        self.assertEqual(len(rows), counts_of("tiny").questions)
        named = {
            pathlib.Path(word).name
            for command in self.commands()
            for word in shlex.split(command)
            if word.startswith("build/evidence/sets/")
        }
        self.assertLessEqual(named, made | {"everyday-skeleton.jsonl", "everyday-sequential.jsonl"})


class Plan(unittest.TestCase):
    def test_predictions_of_measured_jobs(self):
        # Questions a second on one H200 by docs/performance.md; auto alone and its untimed run.
        for name, documents, rate in (("squad2", 128, 1126), ("narrativeqa", 40, 814), ("longhealth", 8, 48.7)):
            command = [name, "--documents", str(documents), "--strategies", "auto"]
            predicted = (cell_seconds(command) - 0.5) / 2
            self.assertLess(0.7, predicted * rate / (documents * JOBS[name][2]), name)
            self.assertGreater(1.4, predicted * rate / (documents * JOBS[name][2]), name)

    @unittest.skipUnless(BANYAN, "BANYAN does not name the program")
    def test_the_run_on_a_gpu_fits(self):
        size = SIZES["gpu"]
        sweeps = [s for s in make_sweeps(size, ["--device", "cuda"]) if s.cells]
        text, wrong = plan_text(BANYAN, sweeps, planned_tables(settings(), size), size.rounds)
        self.assertFalse(wrong, text)
        self.assertLess(float(re.search(r"all: ([\d.]+)$", text)[1]), 20)
        told = subprocess.run([BANYAN, "bench", "tree", "--help"], capture_output=True, text=True, check=False).stdout
        shapes = re.search(r"weights at this shape:(.*?)--random", told, re.DOTALL)[1].replace("\n", " ")
        self.assertLessEqual(set(SHAPES), set(re.findall(r"[\w.-]+", shapes)))
        for name, (instruction, document, _, question, new) in JOBS.items():
            told = subprocess.run([BANYAN, "bench", name, "--help"], capture_output=True, text=True, check=False).stdout
            self.assertIn(f"({instruction} / {document} / {question} tokens, {new} new)", " ".join(told.split()))


class Judged(unittest.TestCase):
    def table(self, kappa: float, skeleton: float, model: str = "JUDGE.gguf") -> Table:
        """Of a judge with this agreement, where sequential values have an F1 of 0.5."""
        agreed = dict(labels=100, agreement=0.8, interval=[0.7, 0.9], kappa=kappa, kappa_interval=[0.5, 0.9])
        trivial = {values.judge.MOST_FREQUENT: dict(agreed, agreement=0.4)}
        of = lambda name, f1: dict(
            run=name,
            documents=28,
            asked=3,
            **{
                way: dict(precision=f1, recall=f1, f1=f1, interval=[f1 - 0.1, f1 + 0.1], counts=dict.fromkeys(ALL, 1))
                for way in ("judge", "exact")
            },
        )
        with (
            mock.patch.object(
                values.judge, "check", lambda a: {"test": {**trivial, values.judge.judge_name(a): agreed}}
            ),
            mock.patch.object(values.judge, "judge_runs", lambda *w: [of("skeleton", skeleton), of("sequential", 0.5)]),
            mock.patch.object(values.judge, "lines_of", lambda path: []),
            mock.patch.object(values, "run", lambda words: ""),
        ):
            return values.judgement(settings(plan=False, model="M.gguf", judge=model))

    def test_a_judge_that_disagrees_with_people_judges_nothing(self):
        table = self.table(0.52, 0.9)
        self.assertTrue(table.facts["verdict"].startswith("cannot be run here: the judge agrees too little"))
        self.assertIn(
            "JUDGE agrees with 80 % (70 to 90) of 100 labels by hand, kappa 0.52 (0.50 to 0.90)", table.facts["judged"]
        )
        self.assertEqual(self.table(0.7, 0.5).facts["verdict"], "reproduced")
        self.assertTrue(self.table(0.7, 0.2).facts["verdict"].startswith("contradicted"))
        self.assertEqual([row[:2] for row in table.rows][:2], [["skeleton", "JUDGE"], ["skeleton", "exact"]])

    def test_without_a_model_shared_words_judge(self):
        table = self.table(0.7, 0.5, "")
        self.assertIn("shared words agrees with 80 %", table.facts["judged"])
        self.assertEqual(table.facts["verdict"], "reproduced")
        self.assertFalse(any(" -m JUDGE" in command for command in table.commands))


class Code(unittest.TestCase):
    def test_lines_are_scored_by_their_characters(self):
        asked = []

        def run(a, command, rows, options):
            asked.append(options)
            right = "concat" not in options
            return [dict(id=r["id"], answer=f"    {r['answers'][0]}" if right else "") for r in rows], {
                "seconds": {"total": 1.0}
            }

        with mock.patch.object(documents.form, "run", run):
            table = documents.code(settings(plan=False, model="M.gguf", encoder="", reranker=""), 12)
        self.assertEqual([r[0] for r in table.rows], list(documents.CODE_WAYS))
        self.assertEqual(
            {r[0]: r[2] for r in table.rows}, dict.fromkeys(documents.CODE_WAYS, "100.0 %") | {"concat": "0.0 %"}
        )
        self.assertTrue(all("--no-copy" in options and documents.form.CODE_INSTRUCTION in options for options in asked))
        self.assertEqual(table.facts["experts verdict"], "reproduced")


class HeldOut(unittest.TestCase):
    def test_a_table_of_models_sets_and_values(self):
        row = lambda way: dict(
            way=way,
            questions=16,
            rates=[2.0],
            scores={"strict F1": 0.0 if way == "null" else 0.5, "accuracy": 0.25},
            intervals={"strict F1": [0.0, 0.0] if way == "null" else [0.4, 0.6]},
        )
        asked = []
        by_mode = lambda a, file, schema, modes, *more: asked.append((a.model, a.adapter)) or [row(m) for m in modes]
        with tempfile.TemporaryDirectory() as place, mock.patch.object(values, "by_mode", by_mode):
            a = settings(sets=pathlib.Path(place), plan=False, extractors=["A.gguf=x/tuned"])
            table = values.extractors(a)
            none = values.extractors(settings(sets=pathlib.Path(place), plan=False, extractors=[]))
        self.assertEqual(asked, [("A.gguf", ""), ("A.gguf", "x/tuned")])
        self.assertEqual(
            [r[:4] for r in table.rows[:2]], [["everyday", "–", "–", "null"], ["everyday", "A", "none", "skeleton"]]
        )
        self.assertEqual((len(table.rows), {len(r) for r in table.rows}), (5, {len(table.head)}))
        self.assertIn("everyday, A, adapter tuned: skeleton 0.500 (0.40 to 0.60)", table.facts["skeleton"])
        self.assertEqual(
            (table.facts["verdict"], none.left_out), ("reproduced", "no models: --extractor MODEL=ADAPTER")
        )

    def test_extractors_read_what_no_adapter_was_trained_on(self):
        with tempfile.TemporaryDirectory() as place:
            data, sets = pathlib.Path(place, "data"), pathlib.Path(place, "sets")
            for folder in (data, sets, pathlib.Path(place, "train")):
                folder.mkdir()
            row = lambda n: dict(
                id=f"t{n}", category="c", text=f"red mug {n}", attributes=["colour"], values={"colour": "red"}
            )
            (data / "oa_mine.jsonl").write_text("".join(json.dumps(row(n)) + "\n" for n in range(60)))
            with gzip.open(pathlib.Path(place, "train", "references_anystyle.jsonl.gz"), "wt") as file:
                file.write("".join(json.dumps(row(n)) + "\n" for n in range(200)))
            a = settings(data=data, sets=sets, plan=True)
            held = values.held_out(a)
            self.assertTrue(all(is_test(r["id"]) for r in held["oa_mine"]))
            self.assertTrue(held["references"] and all(held_name(r["id"]) for r in held["references"]))
            values.write_held_out(a)
            named = {w for c in values.extractors(a).commands for w in shlex.split(c) if w.startswith(str(sets))}
            self.assertEqual({pathlib.Path(w).name for w in named}, {path.name for path in sets.iterdir()})


@unittest.skipUnless(BANYAN, "BANYAN does not name the program")
class OneProcess(unittest.TestCase):
    FOREST = ["tree", "3 questions | 16, 4 tokens", "--shape", "tiny", "--strategies", "auto", "--max-new", "2"]

    def test_benchmarks_run_one_after_another(self):
        runner = Runner(BANYAN, Clock(5), log=lambda text: None)
        self.addCleanup(runner.close)
        found = [runner.bench([*self.FOREST, "--threads", "1"])["streams"] for _ in range(2)]
        self.assertEqual(found, [3, 3])
        process = runner.benches.process
        with self.assertRaisesRegex(Failed, "bench tree nonsense.*exit status 2: banyan: 'nonsense'"):
            runner.bench(["tree", "nonsense", "--shape", "tiny"])
        self.assertEqual(runner.bench(self.FOREST)["max_new"], 2)  # the process is still there
        self.assertIs(runner.benches.process, process)

    def test_what_outlasts_the_time_is_ended(self):
        benches = Benches(BANYAN)
        self.addCleanup(benches.close)
        with self.assertRaises(Ended):
            benches.run(["grid", "--forests", "500", "--minutes", "5"], 0.0)
        self.assertIsNone(benches.process)

    def test_a_program_that_dies_is_a_failure(self):
        benches = Benches("/bin/false")
        self.addCleanup(benches.close)
        with self.assertRaisesRegex(Failed, "exit status"):
            benches.run(self.FOREST, 60.0)


class Resume(unittest.TestCase):
    KNOWN = {"commit": "abc", "program": "p", "machine": "m", "GPU": "none", "date": "now", "load before": "0"}

    def setUp(self):
        self.file = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "evidence.json")
        cells = [Cell(1, ["a"], dict), Cell(2, ["b"], dict)]
        self.sweeps = [Sweep(name, name.upper(), "x", cells) for name in ("one", "two", "three")]
        commands = [Runner.shown(cell.command) for cell in cells]
        self.planned = {name: list(commands) for name in ("one", "two", "three")} | {"answers": ["c"], "rag": ["d"]}
        values = {"auto": {1: {"v": [1.0, 2.0]}, 2.5: {"v": [3.0, 4.0]}}}
        made = {
            "one": Outcome(self.sweeps[0], values, commands, 2, 8.0),
            "two": Outcome(self.sweeps[1], values, commands, 1, 8.0, failures={"banyan bench a": "exit status 3"}),
            "three": Outcome(self.sweeps[2], {}, commands),
        }
        tables = {
            "answers": Table("answers", "A", ["way"], [["flat"]], "n", ["c"], facts={"quality": "good"}),
            "rag": Table("rag", "R", left_out="not run: the time was over", commands=["d"]),
        }
        told = as_json(SIZES["tiny"], self.KNOWN, "x", Results(made, tables, self.planned), 3.5)
        self.file.write_text(json.dumps(told))

    def take(self, known: dict[str, str], size: str = "tiny", **planned) -> tuple[float, Results]:
        results = Results({}, {}, dict(self.planned, **planned))
        with redirect_stderr(io.StringIO()) as said:
            minutes = take_up(self.file, known, size, self.sweeps, results)
        self.said = said.getvalue()
        return minutes, results

    def test_what_is_whole_is_kept(self):
        known = dict(self.KNOWN, date="later")
        minutes, results = self.take(known)
        self.assertEqual((minutes, list(results.sweeps), list(results.tables)), (3.5, ["one"], ["answers"]))
        one = results.sweeps["one"]
        self.assertEqual(one.values, {"auto": {1.0: {"v": [1.0, 2.0]}, 2.5: {"v": [3.0, 4.0]}}})
        self.assertEqual((one.rounds, one.longest, one.sweep), (2, 4.0, self.sweeps[0]))
        self.assertEqual(results.tables["answers"].facts, {"quality": "good"})
        self.assertEqual((known["date"], known["taken up"]), ("now", "1 times"))

    def test_nothing_of_another_run(self):
        for change in ({"commit": "abd"}, {"GPU": "H200"}, {"machine": "n"}, {"program": "q"}):
            minutes, results = self.take(dict(self.KNOWN, **change))
            self.assertEqual((minutes, results.sweeps, results.tables), (0.0, {}, {}))
            self.assertIn(f"not taken up, it has another {next(iter(change))}", self.said)
        self.assertEqual(self.take(dict(self.KNOWN), "small")[0], 0.0)
        changed = dict(self.KNOWN, commit="abc with changes")
        self.file.write_text(self.file.read_text().replace('"abc"', '"abc with changes"'))
        self.assertEqual(self.take(changed)[0], 0.0)  # nobody knows which changes

    def test_other_commands_are_run_again(self):
        results = self.take(dict(self.KNOWN), one=["banyan bench z"], answers=["other"])[1]
        self.assertEqual((results.sweeps, results.tables), ({}, {}))

    def test_what_a_run_lacks_is_taken_of_another(self):
        own = Table("answers", "ours", rows=[["x"]])
        results = Results({}, {"answers": own, "rag": Table("rag", "R", left_out="not run")}, {})
        take_beside(self.file, dict(self.KNOWN, machine="other"), results)
        self.assertEqual((list(results.sweeps), results.tables["answers"]), (["one"], own))
        self.assertIn("Of another run: size tiny, m, now.", results.sweeps["one"].sweep.note)
        self.assertEqual(results.points("one", "auto", "v")[1.0].median, 1.5)
        self.assertEqual(results.tables["rag"].left_out, "not run")  # they have none either
        empty = Results({}, {}, {})
        with redirect_stderr(io.StringIO()) as said:
            take_beside(self.file, dict(self.KNOWN, commit="abd"), empty)
        self.assertEqual((empty.sweeps, empty.tables), ({}, {}))
        self.assertIn("it is of commit abc, and not abd", said.getvalue())

    def test_the_first_run_begins_with_nothing(self):
        self.file.unlink()
        self.assertEqual(self.take(dict(self.KNOWN))[0], 0.0)
        self.assertEqual(self.said, "")


if __name__ == "__main__":
    unittest.main()
