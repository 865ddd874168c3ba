"""Tables of figures by hand, and of a real run (skipped where BANYAN does not name the program)."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from bench import tables


def outcome(strategy: str, **figures) -> dict:
    return {
        "strategy": strategy,
        "streams": 18,
        "seconds": 2.0,
        "questions_per_second": 9.0,
        "decode_tokens_per_second": 120.0,
        "decode_steps": 10,
        "decode_step_seconds": 1.5,
        "decode_limit_seconds": 0.6,
        "prefilled_tokens": 637,
        "generated_tokens": 72,
        **figures,
    }


def cell(work: str, branches: list[int], lengths: list[int], *strategies: dict) -> dict:
    return {
        "work": work,
        "branches": branches,
        "lengths": lengths,
        "max_new": 4,
        "streams": 18,
        "backend": "cpu",
        "precision": "f32",
        "flops_per_second": 2e12,
        "bytes_per_second": 5e11,
        "limit_seconds": 0.5,
        "strategies": list(strategies),
    }


def cells_of(table: str) -> list[list[str]]:
    return [
        [part.strip() for part in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("| ")
    ]


def printed(*names: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = tables.main(list(names))
    return code, out.getvalue(), err.getvalue()


class Tables(unittest.TestCase):
    def test_job(self):
        job = cell(
            "squad2",
            [1, 2, 9],
            [47, 178, 13],
            outcome("flat", questions_per_second=1.0),
            outcome("auto"),
            outcome("no-attention", questions_per_second=12.0),
        )
        text = tables.tables([job])
        self.assertTrue(text.startswith("cpu, f32, measured 2 TFLOP/s and 0.5 TB/s\n"))
        # 18 streams in at least 0.5 s are 36 a second, of which 9 are a quarter.
        self.assertEqual(cells_of(text)[1], ["squad2 47/178/9/13/4", "2", "9.0", "12.0", "25 %"])

    def test_decode(self):
        grid = [
            cell(
                "shared", [1, 18], [2048, 16], outcome("tree"), outcome("no-attention", decode_tokens_per_second=150.0)
            ),
            cell("shared", [1, 18], [64, 16], outcome("tree", decode_steps=0, decode_tokens_per_second=0.0)),
        ]
        rows = cells_of(tables.tables(grid))
        self.assertEqual(rows[1], ["18 × 2048", "120", "18", "150.00", "150", "40 %"])
        self.assertEqual(rows[2], ["18 × 64"] + ["–"] * 5)

    def test_attention(self):
        row = {
            "work": "1 x 2048",
            "limit_us": 2.0,
            "target_us": 8.0,
            "flashinfer_us": {"cascade": 47.0, "paged": 10.5, "parts": 0.0},
            "strategies": {"paged": {"median_us": 171.4}, "tree": {"median_us": 16.0}},
        }
        untargeted = dict(row, target_us=0.0, strategies={"tree": {"median_us": 16.0}})
        rows = cells_of(tables.tables([row, untargeted]))
        self.assertEqual(rows[1], ["1 x 2048", "16.0", "171", "2.0", "12 %", "≤ 8", "47, 10.5, –"])
        self.assertEqual(rows[2][2:6], ["–", "2.0", "12 %", "–"])

    def test_forest(self):
        forest = cell(
            "forest",
            [1, 2, 9],
            [47, 178, 13],
            outcome("flat", streams=9, seconds=3.0, questions_per_second=3.0),
            outcome("no-attention", questions_per_second=12.0),
        )
        rows = cells_of(tables.tables([forest]))
        # 637 rows of prompts, and 72 tokens less the first ones of 9 and 18 streams.
        self.assertEqual(rows[1], ["flat", "3.00", "3.0", "700", "25 %", "8 %"])
        self.assertEqual(rows[2], ["no-attention", "2.00", "12.0", "691", "100 %", "33 %"])

    def test_files_of_one_kind_make_one_table(self):
        jobs = [cell(name, [1, 2, 9], [47, 178, 13], outcome("auto")) for name in ("race", "squad2")]
        self.assertEqual(len(cells_of(tables.tables(jobs))), 3)

    def test_heads_fit_a_terminal(self):
        lines = tables.tables(
            [
                cell("race", [1, 2, 9], [40, 344, 40], outcome("auto")),
                cell("shared", [1, 18], [2048, 16], outcome("auto")),
            ]
        ).splitlines()
        self.assertLessEqual(max(map(len, lines)), 120)

    def test_other_files_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text, reason in (
                ("arrival.json", '[{"run": "batch loop"}]', "neither a job"),
                (
                    "ceiling.json",
                    json.dumps(cell("race", [1, 2, 9], [1, 2, 3], outcome("no-attention"))),
                    "no strategy that gives answers",
                ),
                ("broken.json", "{", "broken.json: "),
                ("number.json", "3", "number.json: "),
            ):
                file = pathlib.Path(folder) / name
                file.write_text(text)
                code, out, err = printed(str(file))
                self.assertEqual((code, out), (2, ""), name)
                self.assertIn(reason, err)
        self.assertEqual(printed("/nowhere/figures.json")[0], 2)

    @unittest.skipUnless(os.environ.get("BANYAN"), "BANYAN names no program")
    def test_a_real_run(self):
        runs = {
            "squad2": ["--documents", "2", "--shape", "tiny", "--random"],
            "shared": ["--streams", "1,4", "--prefix", "64", "--max-new", "4", "--shape", "tiny"],
            "forest": [
                "--documents",
                "2",
                "--questions",
                "2",
                "--lengths",
                "4,20,3",
                "--max-new",
                "4",
                "--shape",
                "tiny",
            ],
            "attention": ["--heads", "4", "--kv-heads", "2", "--head-dim", "16", "--runs", "1", "--only", "1 x 2048"],
        }
        with tempfile.TemporaryDirectory() as folder:
            files = [f"{folder}/{name}.json" for name in runs]
            for (name, options), file in zip(runs.items(), files):
                subprocess.run(
                    [os.environ["BANYAN"], "bench", name, *options, "--json", file],
                    check=True,
                    capture_output=True,
                    timeout=120,
                )
            code, out, err = printed(*files)
        self.assertEqual((code, err), (0, ""))
        rows = {row[0]: row for row in cells_of(out)}
        self.assertEqual(rows["4 × 64"][2], "4")
        self.assertEqual(rows["tree"][3], str(4 + 2 * 20 + 4 * 3 + 4 * 3))
        for name in ("squad2 47/178/9/13/4", "1 × 64", "1 x 2048", "no-attention"):
            self.assertTrue(any(value.endswith("%") for value in rows[name]), name)


if __name__ == "__main__":
    unittest.main()
