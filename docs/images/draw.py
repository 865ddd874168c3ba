#!/usr/bin/env python3
"""Draws the pictures of the documentation: python3 docs/images/draw.py writes the SVG files beside it.

Light and dark follow the reader's browser. The charts evidence-*.svg are those of a run: python3 -m bench.evidence.docs.
"""
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
STYLE = """<style>
text{font:14px system-ui,sans-serif;fill:#1f2328}.small{font-size:12px;fill:#57606a}.title{font-size:15px;font-weight:600}
.root{fill:#d8f0dc;stroke:#2da44e}.doc{fill:#ddf4ff;stroke:#218bff}.question{fill:#fff8c5;stroke:#bf8700}
.tail{fill:#fbefff;stroke:#8250df}.free{fill:none;stroke:#8c959f}.item{fill:#57606a}.arrow{fill:#8c959f}
.edge{stroke:#8c959f;stroke-width:1.5;fill:none}.ours{fill:#2da44e}.cached{fill:#8c959f}.batched{fill:#c6cbd1}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}
.root{fill:#12361f;stroke:#3fb950}.doc{fill:#0c2d4e;stroke:#4493f8}.question{fill:#3a2e05;stroke:#d29922}
.tail{fill:#2d1f47;stroke:#a371f7}.free{stroke:#656c76}.item{fill:#9198a1}.arrow{fill:#656c76}
.edge{stroke:#656c76}.ours{fill:#3fb950}.cached{fill:#656c76}.batched{fill:#3d444d}}
</style>"""


def svg(width, height, title, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" aria-label="{title}"><title>{title}</title>')
    return "\n".join([head, STYLE, *parts, "</svg>\n"])


def text(x, y, words, anchor="middle", kind=""):
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{words}</text>'


def box(x, y, width, height, kind, *lines):
    parts = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" class="{kind}" stroke-width="1.5"/>']
    first = y + height / 2 + 5 - 9 * (len(lines) - 1)
    parts += [text(x + width / 2, first + 18 * i, line, kind="small" if i else "") for i, line in enumerate(lines)]
    return "\n".join(parts)


def edge(x1, y1, x2, y2):
    middle = (y1 + y2) / 2
    return f'<path class="edge" d="M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2}"/>'


def forest():
    parts = [box(270, 16, 220, 48, "root", "instruction", "computed and read once")]
    for i, (name, questions) in enumerate([("report.txt", 3), ("letter.txt", 2), ("page 3 of 1000", 2)]):
        x = 20 + i * 250
        parts += [edge(380, 64, x + 110, 112), box(x, 112, 220, 48, "doc", name, "once, for all its questions")]
        width = 220 // questions - 8
        for k in range(questions):
            at = x + k * (220 / questions) + 4
            parts += [edge(x + 110, 160, at + width / 2, 206), box(at, 206, width, 32, "question", f"q{k + 1}")]
    parts.append(text(380, 266, "All answers are written together, a token each in every step, and each is what it "
                                "would be alone.", kind="small"))
    return svg(760, 280, "A forest of prompts: one instruction, documents below it, questions below each document", parts)


CUT, CUTS_PER_GROUP, GROUPS_PER_CHUNK = 128, 8, 4  # src/plan/attention_plan.h
CUT_WIDTH = 12


def plain(x, y, width, height, kind):
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" class="{kind}"/>'


def arrow(x1, x2, y):
    return f'<path class="edge" d="M{x1} {y} H{x2 - 6}"/><path class="arrow" d="M{x2} {y} l-7 -4 v8 z"/>'


def runs(keys, size):
    """(first, last) keys of the pieces of `size` keys that a segment is divided into; the last may be short."""
    return [(first, min(first + size, keys)) for first in range(0, keys, size)]


def order():
    scale = CUT_WIDTH / CUT
    segments = [("instruction", 700, 20, "root"), ("document", 5120, 108, "doc"), ("question, answer", 50, 604, "question")]
    parts = [text(20, 22, "The keys that one row sees, and the order in which their partial results are merged", "start", "title")]
    levels = [(78, CUT, "128 keys: a cut"), (116, CUT * CUTS_PER_GROUP, "8 cuts: a group"),
              (154, CUT * CUTS_PER_GROUP * GROUPS_PER_CHUNK, "4 groups: a chunk")]
    chunks = []
    for name, keys, x, kind in segments:
        parts += [text(x, 50, name, "start"), text(x, 67, f"{keys} keys", "start", "small")]
        for y, size, _ in levels:
            for first, last in runs(keys, size):
                parts.append(plain(x + first * scale, y, max(4, (last - first) * scale), 22, kind))
                if y == levels[-1][0]:
                    chunks.append(x + (first + last) / 2 * scale)
    parts += [text(740, y + 15, name, "end", "small") for y, _, name in levels]
    parts.append(text(108 + 2 * CUT_WIDTH * CUTS_PER_GROUP, 170, "its groups merged left to right", kind="small"))
    parts.append(text(108 + CUT_WIDTH * CUTS_PER_GROUP / 2, 132, "cuts likewise", kind="small"))
    for i, x in enumerate(chunks):
        parts += [edge(x, 176, x, 200), f'<circle cx="{x:g}" cy="212" r="12" class="free" stroke-width="1.5"/>',
                  text(x, 217, str(i + 1))]
        if i:
            parts.append(arrow(round(chunks[i - 1]) + 13, round(x) - 13, 212))
    parts += [arrow(round(chunks[-1]) + 13, 662, 212), text(740, 217, "attention", "end")]
    parts.append(text(20, 252, "The chunks of the whole path are merged left to right: ((1 + 2) + 3) + 4. "
                               "A plan may make one work item of", "start", "small"))
    for i, (first, cuts, words) in enumerate([(5, 1, "one cut,"), (8, 5, "a run of cuts from a group's start, within the group,"),
                                              (0, 16, "or a run of groups from a chunk's start, within the chunk.")]):
        y = 270 + 22 * i
        parts += [plain(108 + first * CUT_WIDTH, y, cuts * CUT_WIDTH, 10, "item"), text(330, y + 10, words, "start", "small")]
    parts.append(text(20, 350, "So the bits of a row depend on its segments alone, "
                               "not on how the work is divided or who else is there.", "start", "small"))
    return svg(760, 364, "Canonical order of attention: cuts, groups and chunks of a row's path, merged left to right", parts)


PAGE = 16  # tokens: src/plan/batch.h
# name, tokens, place in the picture, kind, page ids in memory
NODES = {"instruction": ("I", 40, 270, 44, 180, "root", (0, 1, 2)), "document A": ("A", 70, 90, 118, 180, "doc", (3, 4, 5, 6, 7)),
         "document B": ("B", 36, 470, 118, 180, "doc", (10, 11, 12)), "question 1": ("q1", 10, 20, 192, 100, "question", (8,)),
         "question 2": ("q2", 14, 240, 192, 100, "question", (9,)), "question 3": ("q3", 20, 510, 192, 100, "question", (13, 14)),
         "q1, answer": ("q1 …", 17, 130, 192, 100, "tail", (15, 18)), "q2, answer": ("q2 …", 15, 350, 192, 100, "tail", (16,)),
         "q3, answer": ("q3 …", 23, 620, 192, 100, "tail", (17, 19))}
ABOVE = {"document A": "instruction", "document B": "instruction", "question 1": "document A", "question 2": "document A",
         "question 3": "document B", "q1, answer": "document A", "q2, answer": "document A", "q3, answer": "document B"}


def pages():
    parts = [text(20, 22, "One forest, and where its keys and values lie", "start", "title")]
    for name, (_, tokens, x, y, width, kind, places) in NODES.items():
        assert len(places) == -(-tokens // PAGE), name
        if name in ABOVE:
            _, _, above_x, above_y, above_width, *_ = NODES[ABOVE[name]]
            parts.append(edge(above_x + above_width / 2, above_y + 44, x + width / 2, y))
        count = f"{len(places)} page" + ("s" if len(places) > 1 else "")
        parts.append(box(x, y, width, 44, kind, name, f"{tokens} tokens, {count}" if width > 120 else f"{tokens}: {count}"))
    parts.append(text(20, 272, "KV memory: pages of 16 tokens, a node's in any place", "start"))
    owner = {place: (label, min(PAGE, tokens - PAGE * i), kind) for label, tokens, *_, kind, places in NODES.values()
             for i, place in enumerate(places)}
    assert len(owner) == sum(len(node[-1]) for node in NODES.values())
    for place in range(24):
        x, y = 20 + place % 12 * 60, 286 + place // 12 * 56
        parts.append(f'<rect x="{x}" y="{y}" width="54" height="32" class="free" stroke-dasharray="3 3"/>')
        if place in owner:
            label, filled, kind = owner[place]
            parts += [plain(x, y, 54 * filled / PAGE, 32, kind), text(x + 27, y + 21, label)]
        parts.append(text(x + 27, y + 46, str(place), kind="small"))
    for i, line in enumerate(["A step reads each page once, for all streams below its node. Tails (violet) begin with a copy",
                              "of their short question and grow page by page; the question itself stays, for others who ask it. "
                              "Dashed: free."]):
        parts.append(text(20, 414 + 18 * i, line, "start", "small"))
    return svg(760, 444, "A forest of nine nodes and the memory pages that hold their keys and values", parts)


if __name__ == "__main__":
    for picture in (forest, order, pages):
        (HERE / f"{picture.__name__}.svg").write_text(picture())
