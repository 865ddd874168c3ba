"""Last touch, on the CPU: makes raw logits log-probabilities everywhere, for expert decoding.

    python3 -m train.calibrate --in train/runs/model --out train/runs/calibrated --steps 160

Expert decoding (methods section 6) compares raw logits of different streams, so a stream that only guesses must not have
larger ones than a stream that knows. Training keeps log-sum-exp near 0 where the model is sure, but not where it guesses (2 to 8
were measured there). This trains the last layers alone, with a strong z-loss, on short texts; lower layers, which
find and bind, stay as they are. A few minutes of CPU.
"""
from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from train import weights
from train.leg import to_batch
from train.lexicon import TRAIN, Lexicon
from train.mixture import make_sample
from train.model import Config, Decoder, block, dense_attend, dense_mask, matrix_shapes, norm_shapes, rms_norm
from train.pack import Rows, pack_rows
from train.retrieval import no_document, secret_code, two_hop_document
from train.sample import Extraction, Sample
from train.tokenizer import Tokenizer


def draw(lex: Lexicon, progress: float) -> Sample | Extraction:
    """Half of the samples are what experts and priors see, the rest is the usual mixture, so that nothing else drifts."""
    kind, tokens = lex.rng.random(), lex.between(30, 150)
    return (two_hop_document(lex, tokens) if kind < 0.3 else secret_code(lex, tokens) if kind < 0.4 else no_document(lex) if kind < 0.5
            else make_sample(lex, progress))


class LastLayers:
    """The model cut in two: lower layers frozen, the last `count` and the final norm trainable."""

    def __init__(self, model: Decoder, count: int) -> None:
        self.model, self.cut = model, model.c.layers - count
        self.names = [n for n in (*matrix_shapes(model.c), *norm_shapes(model.c)) if n != "final_norm"]
        self.upper = {n: getattr(model, n).detach()[self.cut:].clone().requires_grad_() for n in self.names}
        self.final_norm = model.final_norm.detach().clone().requires_grad_()

    def parameters(self) -> list[torch.Tensor]:
        return [*self.upper.values(), self.final_norm]

    def logits(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(logits [answers' predictions, vocabulary], labels, weights)"""
        m, c = self.model, self.model.c
        mask = dense_mask(batch["doc"], batch["branch"], batch["step"])
        cos, sin = m.cos[batch["pos"]][:, :, None], m.sin[batch["pos"]][:, :, None]
        with torch.no_grad():
            x = F.embedding(batch["ids"], m.embedding)
            for i in range(self.cut):
                x = block(x, {n: getattr(m, n)[i] for n in self.names}, cos, sin, mask, c, dense_attend)
        for i in range(c.layers - self.cut):
            x = block(x, {n: t[i] for n, t in self.upper.items()}, cos, sin, mask, c, dense_attend)
        h = rms_norm(x, self.final_norm, c.eps)
        picked = h.gather(1, batch["at"][:, :, None].expand(-1, -1, h.shape[-1])).flatten(0, 1)
        keep = batch["weight"].flatten() > 0.05  # answers, not the text
        return F.linear(picked[keep], m.embedding.detach()), batch["label"].flatten()[keep], batch["weight"].flatten()[keep]

    def write_back(self) -> None:
        with torch.no_grad():
            for n, t in self.upper.items():
                getattr(self.model, n)[self.cut:] = t
            self.model.final_norm.copy_(self.final_norm)


def load_model(folder: Path) -> tuple[Decoder, dict]:
    config, state, tensors = weights.load(folder)
    model = Decoder(Config(**config))
    with torch.no_grad():
        for name, value in tensors.items():
            getattr(model, name).copy_(torch.from_numpy(value.copy()))
    return model, state


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--in", dest="source", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--steps", type=int, default=160)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--z", type=float, default=0.1)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seed", type=int, default=7)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    tok = Tokenizer.load(Path("train/tokenizer"))
    model, state = load_model(a.source)
    last = LastLayers(model, a.layers)
    adam = torch.optim.AdamW(last.parameters(), lr=a.lr, betas=(0.9, 0.98), weight_decay=0.0)
    device, began, shown = torch.device("cpu"), time.time(), []
    for step in range(a.steps):
        adam.param_groups[0]["lr"] = a.lr * min(1.0, (step + 1) / 20, (a.steps - step) / (0.5 * a.steps))
        rows: Rows = pack_rows(tok, 2, a.seed * 100_003 + step, 0.02 + 0.08 * (step % 4), TRAIN, 1024, draw)
        logits, label, weight = last.logits(to_batch(rows, device))
        lse = torch.logsumexp(logits, -1)
        nll = lse - logits.gather(1, label[:, None]).squeeze(1)
        (((weight * nll).sum() / weight.sum()) + a.z * lse.square().mean()).backward()
        adam.step()
        adam.zero_grad()
        guess = (weight < 0.5).float()
        square = lse.detach().square()
        shown.append(((weight * nll).sum() / weight.sum(), (square * (1 - guess)).sum(), (1 - guess).sum(), (square * guess).sum(), guess.sum()))
        if (step + 1) % 20 == 0:
            loss, sure, sures, unsure, unsures = (sum(t.item() for t in column) for column in zip(*shown))
            entry = dict(calibration_step=step + 1, loss=round(loss / len(shown), 4), lse_rms_answers=round((sure / sures) ** 0.5, 3),
                         lse_rms_guesses=round((unsure / max(1.0, unsures)) ** 0.5, 3), seconds=round(time.time() - began, 1))
            state["log"].append(entry)
            print(entry, flush=True)
            shown = []
    last.write_back()
    weights.save(a.out, model.c.as_dict(), state, {n: t.detach().numpy() for n, t in model.named_parameters()})


if __name__ == "__main__":
    main()
