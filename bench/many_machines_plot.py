"""How much of the linear gain is there, against workers: an SVG that follows the reader's light or dark."""

from __future__ import annotations

import math

STYLE = """<style>
text{font:13px system-ui,sans-serif;fill:#1f2328}.small{font-size:12px;fill:#57606a}
.title{font-size:15px;font-weight:600}
.grid{stroke:#d8dee4}.limit{stroke:#8c959f;stroke-dasharray:5 4}.line{fill:none;stroke-width:2.5}
.job0{stroke:#2da44e}.job1{stroke:#218bff}.job2{stroke:#bf8700}.dot0{fill:#2da44e}.dot1{fill:#218bff}.dot2{fill:#bf8700}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.grid{stroke:#30363d}.limit{stroke:#656c76}
.job0{stroke:#3fb950}.job1{stroke:#4493f8}.job2{stroke:#d29922}
.dot0{fill:#3fb950}.dot1{fill:#4493f8}.dot2{fill:#d29922}}
</style>"""


def draw(studies: dict[str, list[dict[str, float]]]) -> str:
    """A line a job: workers on a logarithmic axis, percent of linear on a plain one."""
    left, top, width, height = 60, 46, 560, 260
    most = math.log10(max(row["workers"] for rows in studies.values() for row in rows))

    def x(workers: float) -> float:
        return left + width * math.log10(workers) / most

    def y(share: float) -> float:
        return top + height * (1 - max(0.0, min(share, 1.05)) / 1.05)

    title = "Of the linear gain, a million documents on 1 to 1 000 workers (simulated from measured costs)"
    parts = [
        (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 380" width="680" height="380" role="img" '
            f'aria-label="{title}"><title>{title}</title>'
        ),
        STYLE,
        f'<text x="{left}" y="24" class="title">{title.split(",")[0]}, a million documents (simulated)</text>',
    ]
    for percent in (0, 25, 50, 75, 95, 100):
        at = y(percent / 100)
        kind = "limit" if percent == 95 else "grid"
        parts.append(
            f'<line x1="{left}" y1="{at:.1f}" x2="{left + width}" y2="{at:.1f}" class="{kind}"/><text x="{left - 8}"'
            f' y="{at + (8 if percent == 95 else 4):.1f}" text-anchor="end" class="small">{percent} %</text>'
        )
    for power in range(int(most) + 1):
        parts.append(
            f'<line x1="{x(10 ** power):.1f}" y1="{top}" x2="{x(10 ** power):.1f}" y2="{top + height}"'
            f' class="grid"/><text x="{x(10 ** power):.1f}" y="{top + height + 18}" text-anchor="middle"'
            f' class="small">{10 ** power}</text>'
        )
    parts.append(
        f'<text x="{left + width / 2}" y="{top + height + 36}" text-anchor="middle" class="small">workers</text>'
    )
    for number, (name, rows) in enumerate(studies.items()):
        points = " ".join(f"{x(row['workers']):.1f},{y(row['linear']):.1f}" for row in rows)
        parts.append(f'<polyline points="{points}" class="line job{number}"/>')
        parts += [
            f'<circle cx="{x(row["workers"]):.1f}" cy="{y(row["linear"]):.1f}" r="3.5" class="dot{number}"/>'
            for row in rows
        ]
        at = left + 200 * number
        parts.append(
            f'<circle cx="{at + 6}" cy="{top + height + 56}" r="5" class="dot{number}"/>'
            f'<text x="{at + 18}" y="{top + height + 60}">{name}</text>'
        )
    return "\n".join(parts + ["</svg>"]) + "\n"
