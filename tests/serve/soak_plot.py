"""Samples of a soak as a picture: memory, descriptors and latencies over time.

usage: soak_plot.py SAMPLES.jsonl > FILE.svg
"""
import json
import statistics
import sys

POINTS = 240  # of a line at most; each stands for the samples of its time
WIDTH, PANEL, LEFT, TOP, GAP = 760, 120, 64, 26, 34
PANELS = (("memory, MiB", (("most_mib", "#8fb8a2", "most of a while"), ("resident_mib", "#2c6e4c", "median"))),
          ("open descriptors", (("descriptors", "#7a5c1e", "descriptors"),)),
          ("latency of good requests, s", (("slowest_s", "#a33a1f", "slowest of a while"), ("median_s", "#2c4e6e", "median"))))


def thin(samples):
    """At most POINTS samples: medians of each while, the most of what is called so."""
    step = -(-len(samples) // POINTS)
    whiles = [samples[begin:begin + step] for begin in range(0, len(samples), step)]

    def middle(group, name, pick=statistics.median):
        values = [sample[name] for sample in group if sample[name] is not None]
        return pick(values) if values else None
    return [{"seconds": group[-1]["seconds"], "resident_mib": middle(group, "resident_mib"), "most_mib": middle(group, "resident_mib", max),
             "descriptors": middle(group, "descriptors", max), "median_s": middle(group, "median_s"),
             "slowest_s": middle(group, "slowest_s", max)} for group in whiles]


def panel(samples, title, lines, y):
    end = samples[-1]["seconds"] or 1
    values = [sample[name] for name, _, _ in lines for sample in samples if sample[name] is not None]
    most = max(values, default=1) * 1.05 or 1

    def point(sample, name):
        return f"{LEFT + (WIDTH - LEFT - 12) * sample['seconds'] / end:.1f},{y + PANEL * (1 - sample[name] / most):.1f}"
    parts = [f'<text x="{LEFT}" y="{y - 8}" class="t">{title}</text>',
             f'<path d="M{LEFT} {y}V{y + PANEL}H{WIDTH - 12}" class="a"/>']
    for share in (0, 0.5, 1):
        parts.append(f'<text x="{LEFT - 8}" y="{y + PANEL * (1 - share) + 4:.1f}" class="n" text-anchor="end">{most * share:.3g}</text>')
    for number, (name, colour, label) in enumerate(lines):
        points = " ".join(point(sample, name) for sample in samples if sample[name] is not None)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if len(lines) > 1:
            parts.append(f'<text x="{WIDTH - 12}" y="{y - 8 + 14 * number}" class="n" text-anchor="end" fill="{colour}">{label}</text>')
    return parts


def draw(samples):
    samples = thin(samples)
    height = TOP + len(PANELS) * (PANEL + GAP) + 4
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
             "<style>.t{font-weight:600;fill:#333}.n{fill:#555}.a{fill:none;stroke:#999}</style>",
             f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>']
    for number, (title, lines) in enumerate(PANELS):
        parts += panel(samples, title, lines, TOP + number * (PANEL + GAP))
    bottom = TOP + (len(PANELS) - 1) * (PANEL + GAP) + PANEL + 16
    parts.append(f'<text x="{WIDTH - 12}" y="{bottom}" class="n" text-anchor="end">{samples[-1]["seconds"] / 60:.1f} min</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(draw([json.loads(line) for line in file]))
