#!/usr/bin/env python3
"""Draws the pictures of the documentation: python3 docs/images/draw.py writes the SVG files beside it.

Light and dark follow the reader's browser. Figures of the chart: docs/performance.md, one run of bench/compare.py.
"""
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
STYLE = """<style>
text{font:14px system-ui,sans-serif;fill:#1f2328}.small{font-size:12px;fill:#57606a}.title{font-size:15px;font-weight:600}
.root{fill:#d8f0dc;stroke:#2da44e}.doc{fill:#ddf4ff;stroke:#218bff}.question{fill:#fff8c5;stroke:#bf8700}
.edge{stroke:#8c959f;stroke-width:1.5;fill:none}.ours{fill:#2da44e}.cached{fill:#8c959f}.batched{fill:#c6cbd1}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}
.root{fill:#12361f;stroke:#3fb950}.doc{fill:#0c2d4e;stroke:#4493f8}.question{fill:#3a2e05;stroke:#d29922}
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


# job, Transformers batched, with its cache repeated, Banyan: questions/s of one run on one machine.
SPEED = [("SQuAD2-like", 118, 455, 1043), ("NarrativeQA-like", 7.5, 108, 721), ("RACE-like", 76, 216, 310),
         ("LongHealth-like", 2.3, 16.9, 41.8)]


def speed():
    left, full, y = 150, 480, 48
    parts = [text(left, 24, "Questions per second, Qwen3-8B shape in bf16, one NVIDIA H200", "start", "title")]
    for job, batched, cached, ours in SPEED:
        parts.append(text(left - 10, y + 34, job, "end"))
        for value, kind in ((ours, "ours"), (cached, "cached"), (batched, "batched")):
            width = max(2, full * value / ours)
            parts.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="16" class="{kind}"/>')
            parts.append(text(left + width + 6, y + 13, f"{value:g}", "start", "small"))
            y += 19
        y += 16
    for i, (kind, name) in enumerate((("ours", "Banyan"), ("cached", "Transformers, prefix cache repeated per stream"),
                                      ("batched", "Transformers, batched"))):
        x = left + (0, 90, 420)[i]
        parts += [f'<rect x="{x}" y="{y}" width="12" height="12" class="{kind}"/>', text(x + 18, y + 11, name, "start", "small")]
    return svg(760, y + 28, "Questions per second of Banyan and Transformers on four jobs", parts)


if __name__ == "__main__":
    (HERE / "forest.svg").write_text(forest())
    (HERE / "speed.svg").write_text(speed())
