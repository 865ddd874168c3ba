"""The comparison with vLLM without vLLM: prompts of a tree, sweeps, the table; and a whole run against a stand-in that
prints rates as vllm_job.py does (skipped where BANYAN does not name the program)."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from bench.rivals import vllm, vllm_job

RIVAL = pathlib.Path(vllm.__file__)


class Vllm(unittest.TestCase):
    def test_prompts_of_a_tree_share_what_their_nodes_share(self):
        counter = iter(range(1000))
        prompts = vllm_job.prompts_of([1, 2, 3], [2, 3, 1], lambda count: [next(counter) for _ in range(count)])
        self.assertEqual([len(prompt) for prompt in prompts], [6] * 6)
        self.assertEqual(len({tuple(prompt[:2]) for prompt in prompts}), 1)
        self.assertEqual(len({tuple(prompt[:5]) for prompt in prompts}), 2)
        self.assertEqual(len({tuple(prompt) for prompt in prompts}), 6)

    def test_a_sweep_keeps_the_best_rate_of_each_job(self):
        merged = vllm.sweep([("fp8", [1.0, None, 3.0]), ("bf16", [9.0, 9.0, None]), ("fp8", [2.0, None, 1.0])])
        self.assertEqual(merged, {"fp8": [2.0, None, 3.0], "bf16": [9.0, 9.0, None]})

    def test_the_losing_row_is_shown(self):
        lines = vllm.table(["squad2", "race"], {"bf16": [1200.0, 300.0]}, {"fp8": [600.0, 400.0]}).splitlines()
        self.assertEqual(lines[2], "| squad2 | **1 200** | 600 | 2.00 |")
        self.assertEqual(lines[3], "| race | 300 | **400** | 0.75 |")

    def test_configs_are_those_of_our_shapes(self):
        """vLLM builds the model from config.json alone: its sizes are what src/load/random_model.cc says, and a mixture
        has every field that its Qwen3MoeForCausalLM reads."""
        shapes = (RIVAL.parents[2] / "src/load/random_model.cc").read_text()
        ours = json.loads(re.search(r'"qwen3-30b-a3b",\s+R"\((.*?)\)"', shapes, re.DOTALL).group(1))
        theirs = vllm_job.CONFIGS["qwen3-30b-a3b"]
        self.assertEqual({name: theirs.get(name) for name in ours}, ours)
        for name in (
            "decoder_sparse_step",
            "mlp_only_layers",
            "norm_topk_prob",
            "num_experts_per_tok",
            "rms_norm_eps",
            "hidden_act",
            "max_position_embeddings",
            "tie_word_embeddings",
        ):
            self.assertIn(name, theirs)
        self.assertEqual(theirs["architectures"], ["Qwen3MoeForCausalLM"])
        for config in vllm_job.CONFIGS.values():
            self.assertEqual(config["num_attention_heads"] % config["num_key_value_heads"], 0)

    @unittest.skipUnless(os.environ.get("BANYAN"), "BANYAN does not name the program")
    def test_one_command_runs_both(self):
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder) / "python"
            python.write_text(
                '#!/bin/sh\necho \'{"vllm": "0"}\'\necho words\necho \'{"job": 0, "rate": 0.001}\'\nexit 3\n'
            )
            python.chmod(0o755)
            done = subprocess.run(
                [
                    sys.executable,
                    str(RIVAL),
                    "--banyan",
                    os.environ["BANYAN"],
                    "--device",
                    "cpu",
                    "--shape",
                    "tiny",
                    "--jobs",
                    "squad2 --documents 2",
                    "--ours",
                    "f32=--precision f32",
                    "--theirs",
                    "fp8={}",
                    "--python",
                    str(python),
                    "--repeat",
                    "1",
                    "--json",
                    f"{folder}/all.json",
                ],
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("ended with 3", done.stderr)
            self.assertIn("| squad2, questions/s |", done.stdout)
            figures = json.loads(pathlib.Path(folder, "all.json").read_text())
            self.assertEqual(figures["theirs"], {"fp8": [0.001]})
            self.assertGreater(figures["ours"]["f32"][0], 0)


if __name__ == "__main__":
    unittest.main()
