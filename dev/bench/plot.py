"""Lines as SVG, where a shape says more than a number."""

from collections.abc import Mapping, Sequence

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 640, 300, 70, 40, 40
_COLOURS = ("#1f6feb", "#d4781b", "#2da44e", "#8250df")


def draw(title: str, lines: Mapping[str, Points]) -> str:
    """Lines over one scale that begins at zero."""
    every = [point for points in lines.values() for point in points]
    right, top = max(x for x, _ in every), max(y for _, y in every)

    def place(x: float, y: float) -> str:
        across = _LEFT + x / right * (_WIDTH - _LEFT - 20)
        return f"{across:.1f},{_HEIGHT - _BOTTOM - y / top * (_HEIGHT - _BOTTOM - _TOP):.1f}"

    parts = [_text(_LEFT, 20, title)]
    for share in (0, 0.5, 1):
        x, y = place(0, top * share).split(",")
        parts.append(_text(4, float(y) + 4, _number(top * share)))
        parts.append(f'<path d="M{x},{y} H{_WIDTH - 20}" stroke="#ccc"/>')
        bottom = float(place(right * share, 0).split(",")[0])
        parts.append(_text(bottom - 12, _HEIGHT - 20, _number(right * share)))
    for number, ((name, points), colour) in enumerate(zip(lines.items(), _COLOURS, strict=False)):
        path = " ".join(place(x, y) for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(_LEFT + 150 * number, _HEIGHT - 4, name, colour))
    body = "\n".join(parts)
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


def _text(x: float, y: float, said: str, colour: str = "#333") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-family="sans-serif" font-size="12"'
        f' fill="{colour}">{said}</text>'
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"  # noqa: PLR2004
