"""The evidence graph in the formats that others read, and as a picture."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from html import escape
from io import BytesIO
from typing import Any

import networkx as nx


def graph_text(graph: "nx.MultiGraph[str]", form: str) -> str:
    """Return the graph as ``graphml``, ``json`` (node-link), ``dot`` or ``svg``."""
    return _WRITERS[form](graph)


def _graphml(graph: "nx.MultiGraph[str]") -> str:
    file = BytesIO()
    nx.write_graphml(graph, file)
    return file.getvalue().decode()


def _json(graph: "nx.MultiGraph[str]") -> str:
    return json.dumps(nx.node_link_data(graph, edges="edges"), indent=2)


def _dot(graph: "nx.MultiGraph[str]") -> str:
    lines = ["graph evidence {"]
    for node, data in graph.nodes(data=True):
        shown = f"{data['label']}\\n{data['speed']} ({data['low']} to {data['high']})"
        lines.append(f"  {_quoted(node)} [label={_quoted(shown)}];")
    for one, other, data in graph.edges(data=True):
        shown = f"{data['blocks']} blocks, {data['date'][:10]}"
        lines.append(f"  {_quoted(one)} -- {_quoted(other)} [label={_quoted(shown)}];")
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


_ROW, _TOP, _TEXT, _ARCS, _PLOT = 24, 54, 430, 190, 380
_WIDTH = _TEXT + _ARCS + _PLOT + 20


def _svg(graph: "nx.MultiGraph[str]") -> str:
    """Return a picture: stacks by speed, arcs where campaigns compared two, intervals beside."""
    y, parts = 10, list[str]()
    for component in sorted(
        nx.connected_components(graph), key=lambda each: (-len(each), min(each))
    ):
        part = graph.subgraph(component)
        parts += _panel(part, y)
        y += _TOP + _ROW * len(component) + 26
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" width="{_WIDTH}" '
        f'height="{y}" font-family="sans-serif" font-size="13">'
    )
    background = f'<rect width="{_WIDTH}" height="{y}" fill="white"/>'
    return "\n".join([head, background, *parts, "</svg>"])


def _panel(part: "nx.MultiGraph[str]", top: int) -> Iterator[str]:
    """Yield the elements of one component."""
    data: dict[str, dict[str, Any]] = {node: part.nodes[node] for node in part}
    order = sorted(data, key=lambda node: (-data[node]["speed"], node))
    place = {node: top + _TOP + _ROW * row for row, node in enumerate(order)}
    indicator = escape(str(data[order[0]]["indicator"]))
    yield f'<text x="10" y="{top + 16}" font-weight="bold">{indicator}</text>'
    yield (
        f'<text x="10" y="{top + 34}" fill="#555">arcs: campaigns that compared two stacks; right: '
        "speed with 95 % interval</text>"
    )
    pairs: dict[tuple[str, str], list[int]] = {}
    for one, other, edge in part.edges(data=True):
        pairs.setdefault((min(one, other), max(one, other)), []).append(edge["blocks"])
    longest = max(len(order) - 1, 1)
    for (one, other), blocks in sorted(pairs.items()):
        a, b = place[one], place[other]
        reach = _TEXT + 12 + (_ARCS - 20) * abs(a - b) / _ROW / longest
        title = f"{len(blocks)} campaign{'s' * (len(blocks) > 1)}, {sum(blocks)} blocks"
        yield (
            f'<path d="M{_TEXT},{a} Q{reach:.0f},{(a + b) / 2:.0f} {_TEXT},{b}" fill="none" '
            f'stroke="#4477aa" stroke-width="{min(6, len(blocks))}" opacity="0.6">'
            f"<title>{title}</title></path>"
        )
    low = math.log(min(each["low"] for each in data.values()))
    span = math.log(max(each["high"] for each in data.values())) - low or 1.0

    def across(speed: float) -> float:
        return _TEXT + _ARCS + (_PLOT - 185) * (math.log(speed) - low) / span

    bottom = place[order[-1]] + _ROW
    yield (
        f'<line x1="{across(1):.1f}" x2="{across(1):.1f}" y1="{top + _TOP - 12}" y2="{bottom - 8}" '
        'stroke="#999" stroke-dasharray="3 3"/>'
    )
    for node in order:
        yield from _row(data[node], place[node], across)


def _row(data: Mapping[str, Any], y: int, across: Callable[[float], float]) -> Iterator[str]:
    label, speed = escape(str(data["label"])), data["speed"]
    yield f'<text x="{_TEXT - 10}" y="{y + 4}" text-anchor="end">{label}</text>'
    yield f'<circle cx="{_TEXT}" cy="{y}" r="4" fill="#4477aa"/>'
    yield (
        f'<line x1="{across(data["low"]):.1f}" x2="{across(data["high"]):.1f}" y1="{y}" y2="{y}" '
        'stroke="#222" stroke-width="2"/>'
    )
    yield f'<circle cx="{across(speed):.1f}" cy="{y}" r="4" fill="#222"/>'
    x = _WIDTH - 15
    shown = f"{speed:.3f} ({data['low']:.3f} to {data['high']:.3f})"
    yield f'<text x="{x}" y="{y + 4}" text-anchor="end" fill="#555">{shown}</text>'


_WRITERS: Mapping[str, Callable[["nx.MultiGraph[str]"], str]] = {
    "graphml": _graphml,
    "json": _json,
    "dot": _dot,
    "svg": _svg,
}
