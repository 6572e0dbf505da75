"""A plot with two logarithmic axes as SVG, drawn without any package."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 250, 40, 50
COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#57606a", "#bf3989")

Points = Sequence[tuple[float, float]]


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _tick(exponent: int) -> str:
    value = 10.0**exponent
    return f"{value:,.0f}" if exponent >= 0 else f"{value:g}"


def log_plot(series: Mapping[str, Points], *, title: str, across: str, up: str) -> str:
    """Return the SVG of `series`: names and points (x, y), all above zero; the axes are named `across` and `up`."""
    x_low, x_high = _decades([x for points in series.values() for x, _ in points])
    y_low, y_high = _decades([y for points in series.values() for _, y in points])
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        right = (math.log10(x) - x_low) / (x_high - x_low)
        upwards = (math.log10(y) - y_low) / (y_high - y_low)
        return LEFT + wide * right, TOP + high * (1 - upwards)

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
    ]
    for exponent in range(x_low, x_high + 1):
        x, _ = place(10.0**exponent, 10.0**y_low)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{TOP + high}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP + high + 18}" text-anchor="middle">{_tick(exponent)}</text>')
    for exponent in range(y_low, y_high + 1):
        _, y = place(10.0**x_low, 10.0**exponent)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + wide}" y2="{y:.1f}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_tick(exponent)}</text>')
    parts.append(f'<text x="{LEFT + wide / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(across)}</text>')
    parts.append(
        f'<text x="16" y="{TOP + high / 2}" text-anchor="middle" '
        f'transform="rotate(-90 16 {TOP + high / 2})">{escape(up)}</text>'
    )
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [place(x, y) for x, y in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
        level = TOP + 12 + 20 * number
        parts.append(
            f'<rect x="{LEFT + wide + 16}" y="{level - 9}" width="12" height="12" fill="{colour}"/>'
            f'<text x="{LEFT + wide + 34}" y="{level + 2}">{escape(name)}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])
