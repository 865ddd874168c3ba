"""llama.cpp's row of the table, against a small library with the same functions: its logits depend on the tokens, their
positions and what the context still holds (skipped where no C compiler is)."""

from __future__ import annotations

import contextlib
import io
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

from bench.rivals import llama_library
from eval import precision

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
VOCABULARY = 7

# A context remembers one number, from which logits follow: sum of token * (position + 1) since it was cleared, plus the
# type of KV.
SOURCE = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef struct { uint8_t bytes[512]; } options;
typedef struct { int32_t n; int32_t *token; float *embd; int32_t *pos, *n_seq; int32_t **seq; int8_t *logits; } batch;
static long held; static int wanted_row, kv_types; static float row[7];
options llama_model_default_params(void) { options o; memset(&o, 0, sizeof o); return o; }
options llama_context_default_params(void) {
  options o; int32_t *w = (int32_t *)o.bytes;
  memset(&o, 0, sizeof o);
  w[0] = 512; w[1] = 2048; w[2] = 512; w[3] = 1; w[5] = w[6] = 4; w[12] = w[13] = 1;  /* threads, types of KV */
  o.bytes[57] = o.bytes[58] = o.bytes[59] = o.bytes[60] = 1;
  return o;
}
batch llama_batch_init(int32_t n, int32_t embd, int32_t seqs) {
  batch b = {0, malloc(4 * n), 0, malloc(4 * n), malloc(4 * n), malloc(8 * n), malloc(n)};
  for (int i = 0; i < n; ++i) b.seq[i] = malloc(4);
  return b;
}
void llama_batch_free(batch b) {}
void *llama_model_load_from_file(const char *path, options o) { return strstr(path, "missing") ? 0 : &held; }
void *llama_init_from_model(void *m, options o) {
  kv_types = ((int32_t *)o.bytes)[12] + ((int32_t *)o.bytes)[13];
  return &held;
}
void *llama_get_memory(void *c) { return &held; }
void *llama_model_get_vocab(void *m) { return &held; }
int32_t llama_vocab_n_tokens(void *v) { return 7; }
void llama_log_set(void *f, void *d) {}
void llama_backend_init(void) {}
const char *llama_print_system_info(void) { return "none"; }
void llama_memory_clear(void *m, int data) { held = 0; }
int32_t llama_decode(void *c, batch b) {
  wanted_row = -1;
  for (int i = 0; i < b.n; ++i) { held += (long)b.token[i] * (b.pos[i] + 1); if (b.logits[i]) wanted_row = i; }
  return 0;
}
void llama_synchronize(void *c) {}
float *llama_get_logits_ith(void *c, int32_t i) {
  for (int k = 0; k < 7; ++k) row[k] = i == wanted_row ? (float)((held * (k + 1)) % 11) + kv_types : -1;
  return row;
}
void llama_free(void *c) {}
void llama_model_free(void *m) {}
"""


def expected(prefix: list[int], kv: int) -> list[float]:
    held = sum(token * (n + 1) for n, token in enumerate(prefix))
    return [held * (k + 1) % 11 + 2 * kv for k in range(VOCABULARY)]


@unittest.skipUnless(COMPILER, "no C compiler here")
class LlamaRow(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        source, cls.library = pathlib.Path(cls.folder.name, "fake.c"), str(pathlib.Path(cls.folder.name, "libfake.so"))
        source.write_text(SOURCE)
        subprocess.run([COMPILER, "-shared", "-fPIC", "-w", "-o", cls.library, str(source)], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_prefix_is_computed_alone_from_its_first_token(self):
        long = [n % 5 for n in range(llama_library.BATCH + 20)]  # more than one call
        prefixes = [[3, 1, 4], [1, 5], long, [2]]
        found = list(precision.llama_logits(self.library, "model", 2, "", prefixes))
        self.assertEqual([n for n, _ in found], [0, 1, 2, 3])
        for (_, logits), prefix in zip(found, prefixes):
            np.testing.assert_array_equal(logits, expected(prefix, 1))

    def test_the_type_of_keys_and_values(self):
        for name, number in llama_library.KV_TYPES.items():
            _, logits = next(precision.llama_logits(self.library, "model", 1, name, [[6, 2]]))
            np.testing.assert_array_equal(logits, expected([6, 2], number))

    def test_a_model_that_it_does_not_load(self):
        with self.assertRaises(SystemExit):
            next(precision.llama_logits(self.library, "missing", 1, "", [[1]]))

    def test_the_row_of_the_table(self):
        """The engine's rows come from a stand-in that knows the fake library's rule and adds an error of 0.5 to one
        logit."""
        engine = pathlib.Path(self.folder.name, "banyan")
        engine.write_text(f"""#!{sys.executable}
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    if row["kind"] == "tokenize":
        print(json.dumps(dict(id=row["id"], ids=[9] if row["add_special"] else [n % 6 for n in range(60)])))
        continue
    held = sum(token * (n + 1) for n, token in enumerate(row["ids"]))
    logits = [held * (k + 1) % 11 + (0.5 if k == 3 else 0) for k in range({VOCABULARY})]
    print(json.dumps(dict(id=row["id"], last_logits=logits), separators=(",", ":")))
""")
        engine.chmod(0o755)
        text = pathlib.Path(self.folder.name, "text")
        text.write_text("any")
        out = io.StringIO()
        words = [
            "precision",
            "--banyan",
            str(engine),
            "-m",
            "model",
            "--text",
            str(text),
            "--positions",
            "5",
            "--longest",
            "24",
            "--bos",
            "--threads",
            "1",
            "--library",
            self.library,
            "f32",
            "llama",
        ]
        with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(out):
            precision.main()
        lines = out.getvalue().splitlines()
        self.assertIn("each after [9]", lines[0])
        mine, theirs = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines[3:5])
        self.assertEqual((mine[0], theirs[0]), ("cpu f32", "llama.cpp"))
        self.assertEqual(float(mine[3]), 0.0)
        error = 0.5 * (6 / 49) ** 0.5  # of one logit among seven, about their mean
        self.assertAlmostEqual(float(theirs[3]), error, places=4)


if __name__ == "__main__":
    unittest.main()
