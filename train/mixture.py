"""Which task comes next and how long its text is, as a function of training progress: the curriculum.

Short texts first, because finding and copying is learned there at a fraction of the cost; long ones join when that
works.
"""

from __future__ import annotations

import math

from train.lexicon import Lexicon
from train.products import page
from train.questions import haystack
from train.retrieval import no_document, secret_code, two_hop_document
from train.sample import Extraction, Sample

LONGEST = 2900  # generated length aims at tokens; actual lengths spread to about 3100


def draw_length(lex: Lexicon, progress: float) -> int:
    """Document length in tokens. The upper end grows from 150 to LONGEST over the first quarter of training."""
    longest = min(LONGEST, 150 * math.exp(progress / 0.25 * math.log(LONGEST / 150)))
    if progress > 0.25 and lex.chance(0.16):
        return lex.between(1000, LONGEST)
    return int(40 * math.exp(lex.rng.random() * math.log(longest / 40)))


def make_sample(lex: Lexicon, progress: float) -> Sample | Extraction:
    """One training sample; extraction samples are laid out as sequential or skeleton output by the packer."""
    kind, tokens = lex.rng.random(), draw_length(lex, progress)
    if kind < 0.44:
        return haystack(lex, tokens)
    if kind < 0.72:
        return page(lex, min(tokens, 700))
    if kind < 0.79:
        return secret_code(lex, min(tokens, 700))
    if kind < 0.97:
        return two_hop_document(lex, min(tokens, 700))
    return no_document(lex)
