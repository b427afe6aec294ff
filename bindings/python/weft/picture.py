# SPDX-License-Identifier: Apache-2.0
"""Pictures of networks for notebooks."""
from __future__ import annotations

from typing import Any, Dict, List
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT, _STEP_X, _STEP_Y = 120, 40, 160, 70


def network_svg(network: Dict[str, Any]) -> str:
    """Of a network file's object with its layers written out."""
    rows = [{"at": layer["at"], "type": layer["type"], "width": layer.get("out", ""), "sources": layer.get("from", [])}
            for layer in network["layers"]]
    return _svg(network["name"], list(network.get("inputs", {})), rows,
                {name: at for name, at in network.get("outputs", {}).items()})


def mesh_svg(description: Dict[str, Any]) -> str:
    """A picture of a mesh as it was built."""
    return _svg(description["name"], [port["name"] for port in description["inputs"]], description["layers"],
                {output["name"]: output["at"] for output in description["outputs"]})


def _svg(name: str, ports: List[str], layers: List[Dict[str, Any]], outputs: Dict[str, List[int]], most: int = 200) -> str:
    """Cells where they stand (x to the right, y and z downwards), links as lines; a link backwards is dashed."""
    shown = layers[:most]
    lines = sorted({tuple(layer["at"][:2]) for layer in shown})
    levels = 1 + max((layer["at"][3] for layer in shown), default=0)
    place: Dict[Any, Any] = {port: (0, index) for index, port in enumerate(ports)}
    for layer in shown:
        z, y, x, level = layer["at"]
        place[tuple(layer["at"])] = (x + 1, lines.index((z, y)) * levels + level)
    width = (1 + max((column for column, _ in place.values()), default=0)) * _STEP_X
    height = (1 + max((row for _, row in place.values()), default=0)) * _STEP_Y + 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
           f'font-size="11"><title>{escape(name)}</title>']
    for layer in shown:
        to = place[tuple(layer["at"])]
        for source in layer["sources"]:
            begin = place.get(source if isinstance(source, str) else tuple(source) if isinstance(source, list) else None)
            if begin is None:
                continue
            dash = ' stroke-dasharray="4 3"' if begin[0] >= to[0] else ""
            x1, y1 = begin[0] * _STEP_X + _WIDTH, begin[1] * _STEP_Y + 40
            x2, y2 = to[0] * _STEP_X + 10, to[1] * _STEP_Y + 40
            out.append(f'<path d="M{x1} {y1} C{x1 + 30} {y1} {x2 - 30} {y2} {x2} {y2}" fill="none" stroke="#888"{dash}/>')
    named = {tuple(at): output for output, at in outputs.items()}
    texts = {tuple(layer["at"]): f"{layer['type']} {layer['width']}" for layer in shown}
    for key, (column, row) in place.items():
        text = key if isinstance(key, str) else texts[key]
        fill = "#e8f0fe" if isinstance(key, str) else "#fff3d6" if key in named else "#ffffff"
        x, y = column * _STEP_X + 10, row * _STEP_Y + 20
        out.append(f'<rect x="{x}" y="{y}" width="{_WIDTH - 10}" height="{_HEIGHT}" rx="6" fill="{fill}" stroke="#444"/>'
                   f'<text x="{x + 8}" y="{y + 17}">{escape(text)}</text>')
        under = f"{list(key)}" + (f" {named[key]}" if key in named else "") if not isinstance(key, str) else "input"
        out.append(f'<text x="{x + 8}" y="{y + 32}" fill="#666">{escape(under)}</text>')
    if len(layers) > most:
        out.append(f'<text x="10" y="14">{most} of {len(layers)} layers</text>')
    return "".join(out) + "</svg>"
