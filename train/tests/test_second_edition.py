"""The chain of the second edition on a tiny model: cut from a larger one, trained against Q4_0, exported. Skipped where torch is missing."""
from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

try:
    import torch
except ImportError:
    torch = None

from train import weights
from train.export import gguf_metadata, gguf_tensors
from train.gguf import Q4_0, dequantize_q4, quantize_q4_0, read_gguf, write_gguf
from train.lexicon import HELD, TRAIN, Lexicon
from train.reader_mixture import Mixture
from train.reference import load_gguf
from train.tokenizer import Tokenizer, load_tokenizer

TOKENIZER = Path(__file__).parents[1] / "tokenizer"
EXAMPLES = [dict(source="squad2", kind="answer", split="train", document="d", context="The mill at Aldham was built in 1840 by Ruth Kemp. " * 3, question="Who built the mill?",
                 answer="Ruth Kemp", golds=["Ruth Kemp"]),
            dict(source="squad2", kind="null", split="held", document="e", context="A barge left the quay before dawn. " * 5, question="Who steered it?", answer="null", golds=[])]
TEMPLATE = """# note-{n}
Dear {{p:person}}, the {{what=lamp|chair|clock}} costs {{m:price}} and will be sent to {{t:town}} on {{d:date}}. [[Please||Kindly]]
answer by {{w:weekday}}, since our office is closed afterwards. [[?We thank you.]]
Q: What does the {{what}} cost? | What is its price?
A: {{m}}
Q: Where is it sent? | To which town does it go?
A: {{t}} || to {{t}}
N: Who made the {{what}}?
"""


def write_files(folder: Path) -> tuple[Path, Path]:
    with gzip.open(folder / "examples.jsonl.gz", "wt") as f:
        f.writelines(json.dumps(e) + "\n" for e in EXAMPLES)
    templates = folder / "natural"
    templates.mkdir()
    for kind in ("letters", "notes"):
        (templates / f"{kind}.txt").write_text("---\n".join(TEMPLATE.format(n=f"{kind}-{i}") for i in range(12)))
    return folder / "examples.jsonl.gz", templates


class Quantisation(unittest.TestCase):
    def test_q4_0_keeps_values_within_half_a_step(self):
        x = np.random.default_rng(1).normal(size=(6, 64)).astype(np.float32)
        x[2, :32] = 0
        back = dequantize_q4(quantize_q4_0(x), x.shape, False)
        step = np.abs(x.reshape(-1, 32)).max(1) / 8
        self.assertTrue((np.abs(back - x).reshape(-1, 32) <= step[:, None] * 1.01).all())  # the far end of the other sign is cut to 7 steps
        self.assertLess(np.abs(back - x).mean(), 0.3 * step.mean())


@unittest.skipIf(torch is None, "no PyTorch here: pip install torch")
class SecondEdition(unittest.TestCase):
    def setUp(self):
        from train.model import Config, Decoder
        torch.set_num_threads(1)
        self.stack = contextlib.ExitStack()
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.addCleanup(self.stack.close)
        self.examples, self.templates = write_files(self.folder)
        self.config = Config(dim=64, layers=3, heads=3, kv_heads=1, head_dim=32, hidden=96, qk_norm=False, eps=1e-5)
        self.model = Decoder(self.config, seed=3)
        with torch.no_grad():
            for name in ("o", "down"):
                getattr(self.model, name).normal_(0, 0.1, generator=torch.Generator().manual_seed(5))
            self.model.embedding.mul_(20)
        self.large = self.folder / "large.gguf"
        arrays = {n: p.detach().numpy() for n, p in self.model.named_parameters()}
        write_gguf(self.large, gguf_metadata(self.config.as_dict(), Tokenizer.load(TOKENIZER)), gguf_tensors(self.config.as_dict(), arrays))

    def logits(self, model, ids: list[int]) -> np.ndarray:
        from train.model import dense_mask
        zero = torch.zeros(1, len(ids), dtype=torch.int32)
        h = model.hidden(torch.tensor([ids]), torch.arange(len(ids))[None], dense_mask(zero, zero, zero), torch.float32)
        return (h @ model.matrix("embedding").T)[0].detach().numpy()

    def run_main(self, module, *arguments: object) -> str:
        with mock.patch.object(sys, "argv", ["x", *map(str, arguments)]), contextlib.redirect_stdout(io.StringIO()) as out:
            module.main()
        return out.getvalue()

    def test_fake_quantisation_is_that_of_the_file(self):
        from train.model import fake_quantize
        x = torch.randn(4, 96, generator=torch.Generator().manual_seed(2)).requires_grad_()
        y = fake_quantize(x)
        np.testing.assert_allclose(y.detach().numpy(), dequantize_q4(quantize_q4_0(x.detach().numpy()), (4, 96), False), atol=1e-6)
        y.sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.ones((4, 96), np.float32))

    def test_llama_file_read_by_the_reference(self):
        path = self.folder / "small.gguf"
        c = self.config.as_dict()
        write_gguf(path, gguf_metadata(c, Tokenizer.load(TOKENIZER), Q4_0), gguf_tensors(c, {n: p.detach().numpy() for n, p in self.model.named_parameters()}), Q4_0)
        ids = load_tokenizer(path).encode("The mill at Aldham was built in 1840.")
        self.assertEqual(ids, Tokenizer.load(TOKENIZER).encode("The mill at Aldham was built in 1840."))
        self.model.quantized = True
        net = load_gguf(path)
        np.testing.assert_allclose(net.feed(net.empty(), ids, list(range(len(ids)))), self.logits(self.model, ids), atol=2e-3, rtol=1e-3)

    def test_nothing_cut_is_the_same_model(self):
        from train import prune
        from train.calibrate import load_model
        said = self.run_main(prune, "--model", self.large, "--adapter", self.adapter(), "--examples", self.examples, "--tokenizer", TOKENIZER, "--out", self.folder / "same",
                             "--texts", 1, "--length", 24, "--layers", 0, 1, 2, "--hidden", 96)
        self.assertIn("turn of each layer", said)
        same, _ = load_model(self.folder / "same")
        whole = prune.load_large(self.large, self.adapter())
        ids = Tokenizer.load(TOKENIZER).encode("A barge left the quay.")
        whole.embedding.data = torch.from_numpy(prune.embedding_rows(Tokenizer.load(TOKENIZER), load_tokenizer(self.large), whole.embedding.detach().numpy()))
        np.testing.assert_allclose(self.logits(same, ids), self.logits(whole, ids), atol=0.3, rtol=0.05)  # bf16 in the folder

    def adapter(self) -> Path:
        from train import safetensors
        folder = self.folder / "adapter"
        folder.mkdir(exist_ok=True)
        rng = np.random.default_rng(4)
        name = "base_model.model.model.layers.1.self_attn.q_proj."
        safetensors.write_bf16(folder / "adapter_model.safetensors", {name + "lora_A.weight": rng.normal(size=(4, 64)).astype(np.float32),
                                                                      name + "lora_B.weight": rng.normal(size=(96, 4)).astype(np.float32)})
        (folder / "adapter_config.json").write_text(json.dumps(dict(lora_alpha=8, r=4)))
        return folder

    def test_the_adapter_is_merged(self):
        from train.prune import load_large
        from train import safetensors
        lora = list(safetensors.read(self.adapter() / "adapter_model.safetensors").values())
        changed = (load_large(self.large, self.adapter()).q - load_large(self.large, None).q).detach().numpy()
        np.testing.assert_allclose(changed[1], 2 * lora[1] @ lora[0], atol=1e-4)
        self.assertFalse(changed[[0, 2]].any())

    def test_many_streams_are_what_each_is_alone(self):
        from train.decode import complete
        tok = Tokenizer.load(TOKENIZER)
        prompts = [tok.encode(t) for t in ("The mill", "A barge left the quay before dawn", "Dear Ruth,")]
        for prompt, (made, score) in zip(prompts, complete(self.model, prompts, 6, tok.im_end, torch.float32)):
            ids, want, total = list(prompt), [], 0.0
            for _ in range(6):
                row = self.logits(self.model, ids)[-1].astype(np.float64)
                best = int(row.argmax())
                total += row[best] - np.log(np.exp(row - row.max()).sum()) - row.max()
                if best == tok.im_end:
                    break
                want.append(best)
                ids.append(best)
            self.assertEqual(made, want)
            self.assertAlmostEqual(score, total, places=3)

    def test_a_leg_of_the_mixture_and_its_file(self):
        from train import export, leg
        weights.save(self.folder / "start", self.config.as_dict(), dict(progress=0.0, log=[]), {n: p.detach().numpy() for n, p in self.model.named_parameters()})
        said = self.run_main(leg, "--in", self.folder / "start", "--out", self.folder / "end", "--examples", self.examples, "--natural", self.templates, "--steps", 2, "--rows", 1,
                             "--length", 1024, "--workers", 1, "--every", 1, "--score-every", 2, "--held", 1, "--quantize-from", 0.4, "--z-from", 0.4)
        last = json.loads([line for line in said.splitlines() if line.startswith("{")][-1])
        self.assertIn("natural", last["held"])
        self.assertIn("squad2-null", last["held"])
        self.run_main(export, "--in", self.folder / "end", "--gguf", self.folder / "end.gguf", "--kind", "q4_0", "--name", "tiny", "--tokenizer", TOKENIZER)
        self.assertEqual(read_gguf(self.folder / "end.gguf")[0]["general.name"], "tiny")

    def test_written_texts(self):
        from train import written
        tok, lex = load_tokenizer(self.large), Lexicon(random.Random(1), TRAIN)
        self.assertTrue(all(written.writing_prompt(lex).startswith("Write ") for _ in range(9)))
        self.assertEqual(len(written.known_texts(lex, self.examples, self.templates, 2)), 2)  # the example's text is too short
        good = "The ferry to the island left at 9:30 on Friday. " + " ".join(f"Passenger number {n} paid {n * 3} euros at desk {n}." for n in range(2, 12))
        self.assertEqual(written.tidy("**Sure, here it is:**\n" + good + " And then the"), good)
        self.assertIsNone(written.tidy("The same words again and again. " * 12))
        a = mock.Mock(rows=1, length=1024, lr=0.002, adam_lr=1e-4, examples=self.examples, natural=self.templates, tune_steps=2, seed=1, workers=1, model=self.large,
                      questions=2, batch=3, sure=0.0)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            written.tune(self.model, a, float("inf"))
            written.ask_and_answer(self.model, tok, [good, good + " It rained."], a, torch.float32, float("inf"))
        self.assertIn('"tuning": 1', out.getvalue())
        self.assertIn('"texts": 2', out.getvalue())


class Mixing(unittest.TestCase):
    def test_written_texts_join_as_they_appear(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            examples, templates = write_files(folder)
            mixture, lex = Mixture(examples, templates, folder / "written", only="written"), Lexicon(random.Random(1), TRAIN)
            self.assertTrue(mixture(lex, 0.5).branches[0].task.startswith("natural"))  # nothing is written yet
            (folder / "written").mkdir()
            with gzip.open(folder / "written" / "0.jsonl.gz", "wt") as f:
                f.write(json.dumps(dict(EXAMPLES[0], source="written")) + "\n")
            tasks = [mixture(lex, 0.5).branches[0].task for _ in range(130)]
            self.assertEqual(tasks[-1], "written")
            held = Mixture(examples, templates, only="examples")(Lexicon(random.Random(1), HELD), 1.0)
            self.assertEqual([b.task for b in held.branches], ["squad2-null"])


if __name__ == "__main__":
    unittest.main()
