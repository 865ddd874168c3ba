"""The comparison with vLLM without vLLM: prompts of a tree, weights, sweeps, the table; and whole runs against a stand-in
that prints rates as vllm_job.py does (skipped where BANYAN does not name the program)."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

from bench.rivals import turns, vllm, vllm_job, vllm_shapes

RIVAL = pathlib.Path(vllm.__file__)
SHAPES = (RIVAL.parents[2] / "src/load/random_model.cc").read_text()


def shape_in_words(name: str) -> tuple[dict, dict]:
    """Its config as src/load/random_model.cc has it, and what differs in NAME-thin."""
    found = re.search(rf'"{re.escape(name)}",\s+R"\((.*?)\)"(?:,\s+R"\((.*?)\)")?}}', SHAPES, re.DOTALL)
    return json.loads(found.group(1)), json.loads(found.group(2) or "{}")


class Shapes(unittest.TestCase):
    def test_configs_are_those_of_our_shapes(self):
        """vLLM builds the model from config.json alone: its sizes are what src/load/random_model.cc says."""
        for name, fields in vllm_shapes.TEXTS.items():
            if name.endswith("-thin") or name == "qwen3-8b":
                continue
            ours, thin = shape_in_words(name)
            self.assertEqual({field: fields.get(field) for field in ours}, ours, name)
            if thin:
                self.assertEqual(vllm_shapes.TEXTS[name + "-thin"], {**fields, **thin}, name)
            self.assertEqual(fields["num_attention_heads"] % fields["num_key_value_heads"], 0)
        self.assertRegex(SHAPES, r'"qwen3-8b", "qwen3", 36, 4096, 32, 8, 128, 12288, 151936, 1e6')

    def test_a_mixture_has_every_field_that_vllm_reads(self):
        config = vllm_shapes.config_of("qwen3-30b-a3b")
        for name in ("decoder_sparse_step", "mlp_only_layers", "norm_topk_prob", "num_experts_per_tok", "rms_norm_eps",
                     "hidden_act", "max_position_embeddings", "tie_word_embeddings"):  # fmt: skip
            self.assertIn(name, config)
        self.assertEqual(config["architectures"], ["Qwen3MoeForCausalLM"])

    def test_qwen3_5_is_named_as_vllm_0_24_knows_it(self):
        config = vllm_shapes.config_of("qwen3.5-35b-a3b", {"num_hidden_layers": 4})
        self.assertEqual(config["architectures"], ["Qwen3_5MoeForConditionalGeneration"])
        self.assertEqual(config["text_config"]["num_hidden_layers"], 4)
        self.assertEqual(config["vision_config"]["out_hidden_size"], 2048)
        self.assertTrue(vllm_shapes.options_of("qwen3.5-35b-a3b")["language_model_only"])

    def test_gemma_4_says_what_transformers_hides(self):
        overrides = vllm_shapes.options_of("gemma4-31b")["hf_overrides"]
        self.assertEqual((overrides["global_head_dim"], overrides["num_global_key_value_heads"]), (512, 4))
        self.assertNotIn("num_global_key_value_heads", vllm_shapes.options_of("gemma4-e4b")["hf_overrides"])
        self.assertEqual(vllm_shapes.options_of("qwen3-8b"), {})


class Job(unittest.TestCase):
    def test_prompts_of_a_tree_share_what_their_nodes_share(self):
        counter = iter(range(1000))
        prompts = vllm_job.prompts_of([1, 2, 3], [2, 3, 1], lambda count: [next(counter) for _ in range(count)])
        self.assertEqual([len(prompt) for prompt in prompts], [6] * 6)
        self.assertEqual(len({tuple(prompt[:2]) for prompt in prompts}), 1)
        self.assertEqual(len({tuple(prompt[:5]) for prompt in prompts}), 2)
        self.assertEqual(len({tuple(prompt) for prompt in prompts}), 6)

    def test_a_reason_is_a_line_that_says_something(self):
        error = ValueError("1 validation error\n  no such model\n    For further information visit https://x\n")
        self.assertEqual(vllm_job.reason(error), "ValueError: no such model")
        self.assertEqual(vllm_job.reason(KeyError()), "KeyError: ")

    def test_weights_are_drawn_as_ours(self):
        try:
            import torch
        except ImportError:
            self.skipTest("there is no PyTorch")

        class GemmaRMSNorm(torch.nn.LayerNorm):
            pass

        torch.manual_seed(1)
        wide, norm, plus_one = torch.nn.Linear(400, 300), torch.nn.LayerNorm(8), GemmaRMSNorm(8)
        for layer in (wide, norm, plus_one):
            vllm_job.draw_layer(layer)
        self.assertAlmostEqual(float(wide.weight.std()) * 20, 1.0, delta=0.02)
        self.assertEqual(float(wide.bias.abs().max()), 0.0)
        self.assertEqual(norm.weight.tolist(), [1.0] * 8)
        self.assertEqual(plus_one.weight.tolist(), [0.0] * 8)


class Table(unittest.TestCase):
    def test_a_sweep_keeps_the_best_rate_of_each_job(self):
        merged = vllm.sweep([("fp8", [1.0, None, 3.0]), ("bf16", [9.0, 9.0, None]), ("fp8", [2.0, None, 1.0])])
        self.assertEqual(merged, {"fp8": [2.0, None, 3.0], "bf16": [9.0, 9.0, None]})

    def test_the_losing_row_is_shown(self):
        lines = vllm.table(["squad2", "race"], {"bf16": [1200.0, 300.0]}, {"fp8": [600.0, 400.0]}).splitlines()
        self.assertEqual(lines[2], "| squad2 | **1 200** | 600 | 2.00 |")
        self.assertEqual(lines[3], "| race | 300 | **400** | 0.75 |")

    def test_what_did_not_run_has_no_ratio(self):
        lines = vllm.table(["squad2", "race"], {"w8a8": [None, 3.0]}, {"fp8": [600.0, None]}).splitlines()
        self.assertEqual(lines[2], "| squad2 | – | **600** | – |")
        self.assertEqual(lines[3], "| race | **3.0** | – | – |")

    def test_a_grid_has_a_figure_for_each_pair(self):
        self.assertEqual(vllm.job_count("shared --streams 1,32,256 --prefix 2048,16384"), 6)
        self.assertEqual(vllm.job_count("race --documents 3"), 1)


class Turns(unittest.TestCase):
    def test_measuring_waits_until_nobody_loads(self):
        with tempfile.NamedTemporaryFile("w") as one, open(one.name, "w", encoding="utf-8") as other:
            order: list[str] = []

            def measure() -> None:
                with turns.measuring(other):
                    order.append("measured")

            with turns.loading(one):
                waiting = threading.Thread(target=measure)
                waiting.start()
                waiting.join(0.2)
                order.append("loaded")
            waiting.join(10)
            self.assertEqual(order, ["loaded", "measured"])


@unittest.skipUnless(os.environ.get("BANYAN"), "BANYAN does not name the program")
class Runs(unittest.TestCase):
    def run_both(self, rival: str, *words: str) -> tuple[subprocess.CompletedProcess[str], dict]:
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder) / "python"
            python.write_text(f"#!/bin/sh\n{rival}\n")
            python.chmod(0o755)
            command = [sys.executable, str(RIVAL), "--banyan", os.environ["BANYAN"], "--device", "cpu", "--shape", "tiny",
                       "--jobs", "squad2 --documents 2", "--ours", "f32=--precision f32", "--theirs", "fp8={}",
                       "--python", str(python), "--repeat", "1", "--json", f"{folder}/all.json", *words]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done, json.loads(pathlib.Path(folder, "all.json").read_text())

    ANSWERS = 'echo \'{"vllm": "0"}\'; read go; echo words; echo \'{"job": 0, "rate": 0.5, "experts": 3.5}\''

    def test_one_command_runs_both(self):
        done, figures = self.run_both(self.ANSWERS)
        self.assertIn("| squad2, questions/s |", done.stdout)
        self.assertIn("vLLM fp8: 3.5 at 18 streams", done.stdout)
        self.assertEqual(figures["theirs"], {"fp8": [0.5]})
        self.assertGreater(figures["ours"]["f32"][0], 0)

    def test_together_what_fails_is_a_row_with_its_reason(self):
        with tempfile.NamedTemporaryFile("w") as turn:
            done, figures = self.run_both(
                self.ANSWERS + "; echo out of memory >&2; exit 3", "--together", "--turn", turn.name,
                "--ours", "no=--precision w8a8", "--jobs", "shared --streams 1,2 --prefix 16",
            )  # fmt: skip
        self.assertEqual(figures["ours"]["no"], [None] * 3)
        self.assertEqual(figures["theirs"]["fp8"][1:], [None] * 2)
        self.assertIn("Not run: Banyan no: banyan: device cpu: --precision w8a8 is for", done.stdout)
        self.assertIn("Not run: vLLM fp8: out of memory", done.stdout)

    def test_banyan_may_load_in_its_turn(self):
        done, figures = self.run_both(self.ANSWERS, "--together", "--late", "--ours", "no=--precision w8a8")
        self.assertEqual((figures["theirs"]["fp8"], figures["ours"]["no"]), ([0.5], [None]))
        self.assertGreater(figures["ours"]["f32"][0], 0)

    def test_a_rival_that_does_not_load_tells_why(self):
        done, figures = self.run_both('echo \'{"error": "ValueError: no such model"}\'; exit 1')
        self.assertEqual(figures["theirs"], {"fp8": [None]})
        self.assertIn("Not run: vLLM fp8: ValueError: no such model", done.stdout)

    def test_time_that_runs_out_leaves_a_table(self):
        done, figures = self.run_both('echo \'{"vllm": "0"}\'; read go; sleep 60', "--seconds", "4")
        self.assertGreater(figures["ours"]["f32"][0], 0)
        self.assertIn("Not run: vLLM fp8: out of time after", done.stdout)


if __name__ == "__main__":
    unittest.main()
