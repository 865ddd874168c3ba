"""Evidence: medians and spreads, what is called a difference, plots, the papers' rows, and a page of a real run at a
tiny size."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from unittest import mock

import numpy

from bench.cut_model import cut
from bench.evidence import docs, documents
from bench.evidence.__main__ import stack_costs
from bench.evidence.figures import RAN, Figure, compare, differ, figure, figure_of, ratio, significant
from bench.evidence.page import claim_rows, claims_markdown, make_page
from bench.evidence.papers import CLAIMS
from bench.evidence.planning import table_of
from bench.evidence.quality import degraded
from bench.evidence.readers import PREDICTED, of_extract, of_work
from bench.evidence.runner import ROOT, Cell, Clock, Failed, Outcome, Runner, Sweep
from bench.evidence.svg import Series, bar_plot, line_plot, log_ticks, ticks
from bench.evidence.sizes import SIZES, SMALL, TINY
from bench.evidence.sweeps import make_sweeps, reuse_forest
from bench.evidence.verdicts import Found, Results, Table, better, falls, grows, grows_less, peak, up_to, worst
from eval.form import rag_options
from train.gguf import U32, read_gguf, write_gguf


class Figures(unittest.TestCase):
    def test_median_and_spread(self):
        self.assertEqual(figure([3.0, 1.0, 2.0]), Figure(2.0, 1.0, 3.0, 3))
        self.assertEqual(figure([1.0, 2.0]).median, 1.5)
        self.assertEqual(figure([3.0, 1.0, 2.0]).spread, 2.0)
        self.assertEqual(figure([3.0, 1.0, 2.0]).text(), "2 (1 to 3)")
        self.assertEqual(figure([2.0]).text(), "2")
        with self.assertRaises(ValueError):
            figure([])

    def test_a_difference_is_more_than_either_spread(self):
        steady, wild = figure([10.0, 10.1, 10.2]), figure([9.0, 12.0, 15.0])
        self.assertTrue(differ(steady, figure([11.0, 11.1, 11.2])))
        self.assertFalse(differ(steady, wild))  # 12 against 10.1, but a spread of 6
        self.assertFalse(differ(wild, steady))
        self.assertFalse(differ(steady, figure([10.1, 10.2, 10.3])))
        self.assertFalse(differ(figure([1.0]), figure([9.0])))  # one run has no spread

    def test_words(self):
        self.assertEqual(compare(figure([20.0, 20.2]), figure([10.0, 10.0])), "2.01 ×")
        self.assertIn("no difference", compare(figure([10.0, 13.0]), figure([10.0, 10.1])))
        self.assertIn("no claim", compare(figure([20.0]), figure([10.0])))
        self.assertIn("nothing", compare(figure([20.0]), figure([0.0])))

    def test_digits(self):
        for value, text in (
            (0, "0"),
            (0.01234, "0.0123"),
            (1.2345, "1.23"),
            (12.345, "12.3"),
            (123.45, "123"),
            (12345.6, "12346"),
            (0.0000123, "0.000012"),
        ):
            self.assertEqual(significant(value), text)

    def test_what_is_calculated_is_marked(self):
        part = figure_of({"s": [2.0, 4.0], RAN: [0.25, 0.25]}, "s")
        self.assertEqual((part.text(), part.estimated), ("~3 (2 to 4)", True))
        self.assertEqual(figure_of({"s": [2.0, 4.0]}, "s").text(), "3 (2 to 4)")
        self.assertIsNone(figure_of({}, "s"))
        self.assertFalse(figure_of({RAN: [0.25]}, RAN).estimated)
        self.assertTrue(ratio(figure([2.0]), part).estimated)
        self.assertEqual(ratio(figure([8.0, 12.0]), figure([2.0, 4.0])), Figure(10 / 3, 2.0, 6.0, 2))


class Plots(unittest.TestCase):
    def test_ticks(self):
        self.assertEqual(ticks(0, 10), [0, 2, 4, 6, 8, 10])
        self.assertEqual(ticks(0, 0.7), [0, 0.2, 0.4, 0.6, 0.8])
        self.assertEqual(ticks(3, 3)[0], 3)
        for low, high in ((0, 1), (0, 123), (0, 9999), (-5, 5), (0, 0.00012)):
            made = ticks(low, high)
            self.assertLessEqual(made[0], low)
            self.assertGreaterEqual(made[-1], high - 1e-12)
            self.assertLessEqual(len(made), 8)
        self.assertEqual(log_ticks(3, 40), [2, 5, 10, 20, 50])
        self.assertEqual(log_ticks(1, 1000), [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000])
        self.assertEqual(log_ticks(1, 100000), [1, 10, 100, 1000, 10000, 100000])
        with self.assertRaises(ValueError):
            log_ticks(0, 1)

    def test_lines_are_where_their_figures_are(self):
        plot = xml.fromstring(
            line_plot(
                "a < b & c",
                "x",
                "y",
                [Series("one", [(1, figure([10, 20, 30])), (10, figure([40]))]), Series("two", [(1, figure([5, 5]))])],
                log_x=True,
            )
        )
        self.assertEqual(plot.find("title").text, "a < b & c")
        groups = [g for g in plot.findall("g") if g.get("class") in ("s0", "s1")]
        self.assertEqual(len(groups), 2)
        self.assertEqual(len(groups[0].findall("path[@class='spread']")), 1)  # one run has no bar
        self.assertEqual(groups[0].find("g[@class='mark']/title").text, "one, 1: 20 (10 to 30)")
        path = groups[0].find("path[@class='line']").get("d")
        (x0, y0), (x1, y1) = ([float(v) for v in part.split()] for part in path[1:].split("L"))
        self.assertLess(x0, x1)
        self.assertGreater(y0, y1)  # up is less

    def test_nothing_is_no_error(self):
        for text in (line_plot("t", "x", "y", []), line_plot("t", "x", "y", [Series("a")]), bar_plot("t", "y", [])):
            self.assertIn("nothing was measured", "".join(xml.fromstring(text).itertext()))

    def test_bars(self):
        plot = xml.fromstring(bar_plot("rates", "questions/s", [("flat", figure([1, 2, 3])), ("tree", figure([8]))]))
        flat, tree = plot.findall("g/rect")
        self.assertAlmostEqual(float(tree.get("width")) / float(flat.get("width")), 4.0, places=1)
        self.assertEqual(len(plot.findall("path[@class='whisker']")), 1)


class Sweeps(unittest.TestCase):
    def test_reuse_begins_at_nothing_and_never_is_all(self):
        self.assertEqual(reuse_forest(8, 100, 0), "8 streams | 100 tokens")
        self.assertEqual(reuse_forest(8, 100, 99), "8 streams | 99, 1 tokens")
        self.assertEqual(reuse_forest(8, 10, 99), "8 streams | 9, 1 tokens")

    def test_every_size_has_every_sweep(self):
        names = {size: [s.name for s in make_sweeps(SIZES[size], [])] for size in SIZES}
        self.assertEqual(len(set(map(tuple, names.values()))), 1)
        self.assertEqual(len(set(names["small"])), len(names["small"]))
        wanted = {claim.part for claim in CLAIMS if claim.part}
        tables = (
            "answers choices planted extraction extractors judge drafts rag rag_parameters examples narrativeqa code".split()
        )
        self.assertLessEqual(wanted - set(tables), set(names["small"]))

    def test_p_times_b_is_n(self):
        sweep = next(s for s in make_sweeps(SMALL, []) if s.name == "prompts")
        for cell in sweep.cells:
            p, b = (int(cell.command[cell.command.index(o) + 1]) for o in ("--questions-per-stack", "--stacks"))
            self.assertEqual(p * b, SMALL.together)

    def test_flat_counts_for_all_streams_in_memory_alone(self):
        json_of = dict(
            streams=8,
            strategies=[
                dict(
                    strategy="flat",
                    streams=2,
                    questions_per_second=4.0,
                    seconds=0.5,
                    kv_bytes_peak=2**20,
                    prefilled_tokens=100,
                    generated_tokens=8,
                    decode_tokens_per_second=0.0,
                    limit_seconds=0.1,
                )
            ],
        )
        wanted = {"questions/s": 4.0, "s": 2.0, "KV MiB": 4.0, "rows": 432.0, PREDICTED: 0.4, RAN: 0.25}
        self.assertEqual(of_work()(json_of), {"flat": wanted})
        json_of["strategies"][0]["streams"] = 8
        self.assertNotIn(RAN, of_work()(json_of)["flat"])

    def test_values_are_named_by_their_stack_where_there_are_several(self):
        mode = lambda values, stack: dict(values=values, stack=stack, documents_per_second=2.0, steps=9)
        one = dict(documents=4, attributes=16, modes=[mode("skeleton", 1), mode("skeleton, stacked", 6)])
        self.assertEqual(list(of_extract(one)), ["skeleton", "skeleton, stacked"])
        self.assertEqual(of_extract(one)["skeleton, stacked"]["values at once"], 64)  # of 4 documents
        two = dict(one, modes=[*one["modes"], mode("skeleton, stacked", 2)])
        self.assertEqual(list(of_extract(two)), ["skeleton", "skeleton, stacked by 6", "skeleton, stacked by 2"])


class Rounds(unittest.TestCase):
    def runner(self, seconds_of_a_run, minutes=10.0, fails=()):
        clock, now = Clock(minutes, began=0.0), [0.0]
        runner = Runner("banyan", clock, rounds=3, log=lambda text: None)
        calls = []

        def bench(command):
            calls.append(command[0])
            now[0] += seconds_of_a_run
            if command[0] in fails:
                raise Failed("banyan bench b: exit status 3: no")
            return {"value": len(calls)}

        runner.bench = bench
        self.enterContext(mock.patch("time.monotonic", lambda: now[0]))
        sweep = Sweep(
            "s", "S", "x", [Cell(x, [name], lambda j: {"auto": {"v": j["value"]}}) for x, name in ((1, "a"), (2, "b"))]
        )
        return runner, sweep, calls

    def test_cells_take_turns(self):
        runner, sweep, calls = self.runner(1.0)
        outcome = runner.run(sweep, 100)
        self.assertEqual(calls, ["a", "b"] * 3)
        self.assertEqual(outcome.values["auto"], {1: {"v": [1, 3, 5]}, 2: {"v": [2, 4, 6]}})
        self.assertEqual((outcome.rounds, outcome.left_out), (3, ""))

    def test_a_round_that_does_not_fit_is_left_out(self):
        runner, sweep, calls = self.runner(10.0)
        outcome = runner.run(sweep, 45)
        self.assertEqual(outcome.rounds, 2)
        self.assertIn("2 of 3 rounds", outcome.left_out)

    def test_time_that_is_left_at_the_end_completes_a_sweep(self):
        runner, sweep, calls = self.runner(10.0)
        outcome = runner.run(sweep, 25)
        self.assertEqual(outcome.rounds, 1)
        runner.go_on(outcome, 45)
        self.assertEqual((outcome.rounds, outcome.left_out, outcome.seconds), (3, "", 60.0))
        self.assertEqual(outcome.values["auto"][1], {"v": [1, 3, 5]})
        runner.go_on(outcome, 45)
        self.assertEqual(len(calls), 6)

    def test_without_time_nothing_is_run(self):
        runner, sweep, calls = self.runner(10.0, minutes=0.0)
        self.assertEqual(runner.run(sweep, 45).left_out, "not run: the time was over")
        self.assertEqual(calls, [])

    def test_a_failure_is_kept(self):
        runner, sweep, calls = self.runner(1.0, fails=("b",))
        outcome = runner.run(sweep, 45)
        self.assertIn("exit status 3", outcome.left_out)
        runner.go_on(outcome, 45)
        self.assertEqual((outcome.rounds, calls), (3, ["a", "b", "a", "a"]))  # the others go on without it
        self.assertEqual((list(outcome.failures), list(outcome.values["auto"])), (["banyan bench b"], [1]))


def results(**sweeps) -> Results:
    """Sweeps as series → x → measure → runs."""
    return Results({name: Outcome(Sweep(name, name, "x", []), values) for name, values in sweeps.items()}, {})


class Verdicts(unittest.TestCase):
    def at(self, ours: list[float], theirs: list[float], claimed: float, **more) -> Found:
        values = {"auto": {1: {"v": ours}}, "flat": {1: {"v": theirs, **more.pop("marks", {})}}}
        return up_to(results(s=values), "s", "auto", ["flat"], "v", claimed, **more)

    def test_up_to(self):
        self.assertEqual(self.at([80.0, 80.0], [10.0, 10.0], 7).told, "reproduced")
        self.assertEqual(self.at([30.0, 30.0], [10.0, 10.0], 7).told, "not reproduced (3 of 7 times)")
        self.assertEqual(self.at([60.0, 90.0], [10.0, 10.0], 7).told, "not reproduced (within the spread)")  # 6 to 9
        self.assertEqual(self.at([5.0, 5.0], [10.0, 10.0], 7).verdict, "contradicted")
        self.assertEqual(self.at([9.0, 12.0], [10.0, 10.0], 7).told, "not reproduced (within the spread)")
        self.assertEqual(
            self.at([2.0, 2.0], [10.0, 10.0], 4, times=True).told, "reproduced"
        )  # of times, less is better
        self.assertIsNone(up_to(results(), "s", "auto", ["flat"], "v", 7))

    def test_one_run_and_what_is_calculated_are_no_claims(self):
        self.assertEqual(self.at([80.0], [10.0], 7).told, "not reproduced (one run, so no claim)")
        found = self.at([80.0, 80.0], [10.0, 10.0], 7, marks={RAN: [0.1, 0.1]})
        self.assertEqual(found.told, "not reproduced (by calculation from a part of the streams, so no claim)")
        self.assertIn("~10", found.text)

    def test_points_of_which_all_was_run_count_first(self):
        values = {
            "auto": {1: {"v": [20.0, 20.0]}, 2: {"v": [90.0, 90.0]}},
            "flat": {1: {"v": [10.0, 10.0]}, 2: {"v": [10.0, 10.0], RAN: [0.5, 0.5]}},
        }
        self.assertIn("at most at 1:", up_to(results(s=values), "s", "auto", ["flat"], "v", 2).text)

    def test_the_best_rival_counts(self):
        values = {"auto": {1: {"v": [20.0, 20.0]}}, "flat": {1: {"v": [5.0, 5.0]}}, "paged": {1: {"v": [40.0, 40.0]}}}
        found = up_to(results(s=values), "s", "auto", ["flat", "paged"], "v", 2)
        self.assertEqual((found.verdict, "paged 40" in found.text), ("contradicted", True))

    def test_grows(self):
        def of(first: float, last: float, **more) -> str:
            values = {
                "auto": {1: {"v": [first * 10] * 2}, 8: {"v": [last * 10] * 2}},
                "paged": {1: {"v": [10.0, 11.0]}, 8: {"v": [10.0, 11.0]}},
            }
            return grows(results(s=values), "s", "auto", ["paged"], "v", **more).verdict

        self.assertEqual((of(1, 4), of(4, 1), of(2, 2.1)), ("reproduced", "contradicted", "not reproduced"))
        self.assertEqual((of(1, 4, shrinks=True), of(4, 1, shrinks=True)), ("contradicted", "reproduced"))

    def test_falls(self):
        def of(last: list[float], **more) -> Found:
            return falls(results(s={"auto": {1: {"v": [100.0, 100.0]}, 16: {"v": last}}}), "s", "auto", "v", **more)

        self.assertEqual(of([90.0, 90.0], most=0.15).told, "reproduced")
        self.assertEqual(of([63.0, 63.0], most=0.15).told, "not reproduced (−37 % here)")
        self.assertEqual(of([80.0, 92.0], most=0.15).told, "not reproduced (within the spread)")
        self.assertEqual(of([5.0, 5.0], least=0.9).told, "reproduced")
        short = results(s={"auto": {1: {"v": [9.0, 9.0]}, 4: {"v": [9.0, 9.0]}}})
        self.assertEqual(falls(short, "s", "auto", "v", most=0.15).told, "not reproduced (only 4 times the tokens)")

    def test_a_time_that_grows_less_than_the_questions(self):
        of = lambda last: grows_less(
            results(s={"auto": {4: {"s": [1.0, 1.0]}, 64: {"s": last}}}), "s", "auto", "s"
        ).verdict
        self.assertEqual(
            (of([3.0, 4.0]), of([16.0, 17.0]), of([15.0, 17.0])), ("reproduced", "contradicted", "not reproduced")
        )

    def test_peak(self):
        of = lambda *v: peak(results(s={"p": {n: {"v": [x, x]} for n, x in enumerate(v)}}), "s", "p", "v", "P").verdict
        self.assertEqual((of(1, 3, 2), of(1, 2, 3), of(2, 2, 2)), ("reproduced", "contradicted", "not reproduced"))

    def test_by_intervals(self):
        of = lambda share, low, high: {"k": share, "k_interval": [low, high]}
        good, bad, wide = of(0.9, 0.8, 1.0), of(0.2, 0.1, 0.3), of(0.9, 0.1, 1.0)
        self.assertEqual(better(good, bad, "k"), "reproduced")
        self.assertEqual(better(bad, good, "k"), "contradicted: 20 % (10 to 30) against 90 % (80 to 100)")
        self.assertTrue(better(wide, good, "k").startswith("not reproduced: the intervals overlap"))
        self.assertEqual(better(wide, good, "k", strictly=False), "reproduced")
        few = better(dict(good, questions=1), dict(bad, questions=1), "k")
        self.assertEqual(few, "not reproduced: 1 question, so no claim")
        self.assertEqual(worst(["reproduced", "not reproduced: x", "contradicted: y"]), "contradicted: y")


class Papers(unittest.TestCase):
    def test_every_row_tells_something_without_results(self):
        rows = claim_rows(Results({}, {}))
        self.assertEqual(len(rows), len(CLAIMS))
        self.assertEqual(len({claim.paper for claim in CLAIMS}), 5)
        self.assertEqual(len({(row[0], row[1]) for row in rows}), len(rows))
        for claim, row in zip(CLAIMS, rows):
            self.assertTrue(claim.claim and claim.setting, row)
            said = f"cannot be run here ({claim.cannot})" if claim.cannot else "no figure in this run"
            self.assertEqual((row[3], row[4], row[5]), (claim.command or "–", "–", said))

    def test_a_row_has_the_command_and_the_figure_of_the_run(self):
        values = {"auto": {8: {"decode tok/s": [400.0, 402.0]}}, "paged": {8: {"decode tok/s": [10.0, 10.0]}}}
        found = results(streams=values)
        found.sweeps["streams"].commands = ["banyan bench tree '8 questions | 64, 16 tokens'"]
        row = claim_rows(found)[0]
        self.assertEqual((row[3], row[5]), (found.sweeps["streams"].commands[0], "reproduced"))
        self.assertIn("auto 401 (400 to 402), paged 10 (10 to 10) decode tok/s: 40.1 (40 to 40.2) times", row[4])
        table = claims_markdown(TINY, {"commit": "abc123"}, "python3 -m bench.evidence", found)
        self.assertIn("Commit abc123", table)
        self.assertIn(f"{len(CLAIMS)} claims: 1 reproduced", table)
        self.assertEqual(
            len({line.count("|") - line.count("\\|") for line in table.splitlines() if line.startswith("|")}), 1
        )

    def test_stacks_against_prefix_caching_is_a_row(self):
        values = {  # one job that it loses is enough
            "stacked": {0: {"questions/s": [5.0, 5.0]}, 1: {"questions/s": [9.0, 9.0]}},
            "paged": {0: {"questions/s": [9.0, 9.0]}, 1: {"questions/s": [5.0, 5.0]}},
        }
        row = next(r for r in claim_rows(results(jobs=values)) if r[1].startswith("faster than other accelerations"))
        self.assertEqual(row[5], "contradicted")

    def test_documents_of_a_real_model_count_first(self):
        told = lambda text: Table("rag", "t", rows=[["x"]], facts={"map-reduce": text, "map-reduce verdict": text})
        row = lambda tables: next(r for r in claim_rows(Results({}, tables)) if r[1] == "better than map-reduce")
        self.assertEqual(row({"rag": told("contradicted")})[4:], ["contradicted", "contradicted", "see rag"])
        both = {"rag": told("contradicted"), "real_rag": told("reproduced")}
        self.assertEqual(row(both)[4:], ["reproduced", "reproduced", "see real_rag"])

    def test_a_rival_that_cannot_answer_is_no_rival(self):
        of = lambda failed: dict(failed=failed, questions=24, f1=0.1, intervals=dict(f1=[0.05, 0.15]))
        alone = dict(of(0), f1=0.5, intervals=dict(f1=[0.4, 0.6]))
        self.assertTrue(degraded(alone, of(20)).startswith("cannot be run here: 20 of 24 answers unreadable"))
        self.assertEqual(degraded(alone, of(3)), "reproduced")

    def test_ways_have_the_relevance_that_they_would_have(self):
        none = argparse.Namespace(encoder="", reranker="")
        self.assertEqual(documents.relevance(none), (["--relevance", "bm25"], "BM25"))
        both = documents.relevance(argparse.Namespace(encoder="e", reranker="r"))
        self.assertEqual(both, (["--relevance", "dense", "--encoder", "e", "--reranker", "r"], "e with r"))
        options = {name: " ".join(rag_options(way, [{}])) for name, way in documents.WAYS.items()}
        self.assertFalse(any("--relevance" in words for words in options.values()))
        self.assertIn("--scores raw --plausibility 0 --abstention 0 --gamma 2.5", options[documents.PAPER])

    def test_contexts_in_a_prompt_are_chosen_by_prediction(self):
        point = lambda seconds, least: {"s": [seconds] * 2, PREDICTED: [least] * 2, "questions/s": [1 / seconds] * 2}
        found = results(
            stacks={"1 at once": {1: point(4.0, 0.4), 2: point(3.0, 0.3)}, "2 at once": {1: point(2.0, 0.35)}}
        )
        table = stack_costs(found)
        self.assertEqual(table.rows[0], ["1", "1 at once", "0.4000", "4 (4 to 4)", "10.0"])
        self.assertIn("chooses 2 contexts in a prompt, 1 at once, which takes 1.50 times", table.facts["choice"])
        found.tables["stack_costs"] = table
        row = next(r for r in claim_rows(found) if r[1].startswith("several contexts"))
        self.assertEqual(row[5], "contradicted")
        self.assertIn("best of the grid: 1 contexts in a prompt, 2 at once", row[4])

    def test_the_page_escapes_what_it_is_given(self):
        sweep = Sweep("context", "C <b>", "tokens", [])
        page = make_page(
            TINY, {"machine": "<script>"}, "x & y", Results({"context": Outcome(sweep, short="a < b")}, {}), 1.0
        )
        self.assertNotIn("<script>", page)
        self.assertIn("a &lt; b", page)


class Documentation(unittest.TestCase):
    RUN = {
        "size": "small",
        "minutes": 17.0,
        "command": "c",
        "conditions": {
            "machine": "M, 2 cores",
            "commit": "abc",
            "compiler": "c++ 12",
            "date": "2026-11-17",
            "load before": "7.5 running processes (1 min)",
            "GPU": "none",
        },
        "sweeps": {
            name: {
                "title": "Q",
                "x": "questions",
                "note": "A note.",
                "rounds": 2,
                "seconds": 1.0,
                "left_out": "",
                "commands": [],
                "values": {
                    "auto": {"1": {"questions/s": [4.0, 6.0]}, "16": {"questions/s": [50.0, 70.0]}},
                    "flat": {"1": {"questions/s": [5.0], RAN: [0.5]}},
                },
            }
            for name in ("questions", "reuse")
        },
        "tables": {
            "answers": {
                "title": "Answers",
                "head": ["way", "F1"],
                "rows": [["flat", "0.5 | 0.6"]],
                "note": "N.",
                "left_out": "",
                "facts": {"identical": "100 % of 3 answers identical"},
            }
        },
    }

    def test_parts_are_replaced_between_their_marks(self):
        page = "before\n<!-- evidence: begin cpu -->\nold\n<!-- evidence: end cpu -->\nafter\n"
        self.assertEqual(
            docs.replaced(page, "cpu", "new\n"),
            "before\n<!-- evidence: begin cpu -->\nnew\n<!-- evidence: end cpu -->\nafter\n",
        )
        self.assertEqual(
            docs.replaced(page, "gpu", "new"),
            page.replace("end cpu -->", "end cpu -->\n\n<!-- evidence: begin gpu -->\nnew\n<!-- evidence: end gpu -->"),
        )
        with self.assertRaises(ValueError):
            docs.replaced(page, "quality", "new")

    def test_pages_have_what_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            pages = {"performance.md": "cpu", "results.md": "quality"}
            for name, part in pages.items():
                pathlib.Path(folder, name).write_text(
                    f"by hand\n<!-- evidence: begin {part} -->\n<!-- evidence: end {part} -->\n"
                )
            made = docs.pages(self.RUN, pathlib.Path(folder))
        speed, quality, *charts = made.values()
        self.assertIn("| 1 | 5 (4 to 6) | ~5 |", speed)
        self.assertIn("| 16 | 60 (50 to 70) | – |", speed)
        self.assertNotIn("answers identical", speed)
        self.assertIn("Other programs used the machine", speed)
        self.assertIn("Not in this run: context, streams", " ".join(speed.split()))
        self.assertIn("| flat | 0.5 \\| 0.6 |", quality)
        self.assertTrue(all(text.startswith("by hand\n") for text in (speed, quality)))
        self.assertLessEqual(max(len(line) for line in speed.splitlines() if not line.startswith("|")), 120)
        self.assertEqual(len(charts), 2)
        for chart in charts:
            self.assertEqual(xml.fromstring(chart).tag, "{http://www.w3.org/2000/svg}svg")
            self.assertIn("prefers-color-scheme: dark", chart)

    def test_the_pages_are_of_one_run_at_a_commit_of_this_history(self):
        parts = {"performance.md": "cpu", "results.md": "quality"}
        named = set()
        for page, part in parts.items():
            text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())  # lines end anywhere
            begin, end = (text.index(f"<!-- evidence: {mark} {part} -->") for mark in ("begin", "end"))
            found = re.search(r"commit ([0-9a-f]{12})([^;]*); (\S+ \S+ UTC)", text[begin:end])
            self.assertTrue(found, page)
            self.assertEqual(found[2], "", f"{page}: measured with changes that no commit has")
            named.add((found[1], found[3]))
        self.assertEqual(len(named), 1, named)
        git = lambda *words: subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
            self.skipTest("no git history here")
        commit = named.pop()[0]
        self.assertEqual(git("merge-base", "--is-ancestor", commit, "HEAD").returncode, 0, commit)


class CutModel(unittest.TestCase):
    def test_layers_are_kept_in_their_order(self):
        with tempfile.TemporaryDirectory() as folder:
            whole, part = pathlib.Path(folder, "whole.gguf"), pathlib.Path(folder, "part.gguf")
            tensors = {"token_embd.weight": numpy.zeros((4, 32), numpy.float32)} | {
                f"blk.{n}.attn_norm.weight": numpy.full(32, n, numpy.float32) for n in range(3)
            }
            write_gguf(whole, {"general.architecture": "llama", "llama.block_count": U32(3)}, tensors)
            cut(whole, part, [0, 2])
            metadata, kept = read_gguf(part)
            self.assertEqual((metadata["llama.block_count"], len(kept), kept["blk.1.attn_norm.weight"][0]), (2, 3, 2.0))
            with self.assertRaises(ValueError):
                cut(whole, part, [0, 3])


class Planning(unittest.TestCase):
    def test_the_slowest_forests_are_shown_and_all_are_counted(self):
        cells = [
            {
                "work": f"forest {n}",
                "seconds": {"auto": 0.010 + n / 1e4, "tree": 0.010, "paged": 0.012},
                "auto_over_best": 1 + n / 100,
                "spread": 0.004,
                "best": "tree",
                "steps": 20,
                "steps_apart": n % 2,
            }
            for n in range(30)
        ]
        table = table_of(
            {
                "cells": cells,
                "forests": 50,
                "measured": 30,
                "worst": 1.29,
                "worst_spread": 0.004,
                "slower": 26,
                "undecided": 0,
                "same_plans": 4,
                "apart": 15,
            },
            "banyan bench grid",
        )
        self.assertEqual(table.rows[0], ["forest 29", "10.00", "12.00", "12.90", "1.290 ± 0.004", "1 of 20"])
        self.assertLess(len(table.rows), len(cells))
        self.assertIn("30 of 50 forests", table.note)
        self.assertIn("26 clearly more than 3 % slower", table.facts["worst"])


@unittest.skipUnless(os.environ.get("BANYAN"), "BANYAN does not name the program")
class RealRun(unittest.TestCase):
    def test_a_sweep_at_a_tiny_size(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "bench.evidence",
                    "--size",
                    "tiny",
                    "--minutes",
                    "4",
                    "--only",
                    "prompts",
                    "levels",
                    "--out",
                    folder,
                    "--banyan",
                    os.environ["BANYAN"],
                ],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=280,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            made = json.loads(pathlib.Path(folder, "evidence.json").read_text())
            self.assertIn("One shared level or two", pathlib.Path(folder, "evidence.html").read_text())
        copies, once = (made["sweeps"]["prompts"]["values"][name] for name in ("a copy for each prompt", "stored once"))
        memory = lambda series: [series[x]["KV MiB"][0] for x in sorted(series, key=float)]
        # Every copy of the document is computed and stored: memory falls as P grows, to what sharing takes.
        self.assertEqual(memory(copies), sorted(memory(copies), reverse=True))
        self.assertGreater(memory(copies)[0], 1.5 * memory(copies)[-1])
        self.assertEqual(memory(copies)[-1], memory(once)[-1])
        self.assertGreater(copies["1"]["rows"][0], once["1"]["rows"][0])
        levels = made["sweeps"]["levels"]["values"]
        for samples in levels["both levels shared"]:
            both, one, none = (
                levels[name][samples]["rows"][0]
                for name in ("both levels shared", "examples shared alone", "nothing shared")
            )
            self.assertLess(both, one)
            self.assertLess(one, none)


if __name__ == "__main__":
    unittest.main()
