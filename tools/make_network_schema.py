#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/layers.md, and the JSON Schema of network files.

Of mesh/layers/layers.def, mesh/layers/layer_options.def, core/dtypes.def, kernels/activations.def, and what `weft options --json`
says of the sections "learning" and "stream"; the rest stands in tools/network_schema_template.json.

  tools/make_network_schema.py                 docs/layers.md, which readers of the repository follow links to
  tools/make_network_schema.py --check         fails where docs/layers.md differs from what would be written
  tools/make_network_schema.py --schema FILE WEFT   the schema; the build makes it, and installs
                                               share/weft/network.schema.json
"""
import json
import pathlib
import re
import sys
import textwrap
from typing import NamedTuple

import option_tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEMPLATE = "tools/network_schema_template.json"
WIDTH = 120

# Keys of every layer, and of every layer inside a container; `out` is an option of those types that have a row for it.
OWN_KEYS = ["at", "repeat", "type", "view", "shape", "from", "neighbours", "combine", "dtype", "granularity", "activations",
            "qat", "rate_scale", "freeze", "policy", "device"]
CHAIN_KEYS = [key for key in OWN_KEYS if key not in ("at", "repeat", "from", "neighbours", "combine")]
INNER_KEYS = ["type", "name", "view", "from", "combine"]
GRID_ONLY = ["metacognition"]  # a container refuses what watches


class Option(NamedTuple):
    layer: str
    key: str
    kind: str
    arguments: list
    default: str
    unit: str
    meaning: str
    only_with: str

    def condition(self):
        """(key, values) of `only with`, or None."""
        if not self.only_with:
            return None
        key, _, values = self.only_with.partition("=")
        return key, values.split("|")

    def default_value(self, names):
        """(True, value) when the default is a value of the option's kind."""
        if self.kind == "flag" and self.default in ("true", "false"):
            return True, self.default == "true"
        if self.kind in ("number", "whole", "whole_list") and re.fullmatch(r"[-+.e\d]+", self.default):
            return True, json.loads(self.default)
        if self.kind == "choice" and self.default in self.arguments:
            return True, self.default
        if self.kind in names and self.default in names[self.kind]:
            return True, self.default
        return False, None


def layers():
    """type: what it computes."""
    text = (ROOT / "mesh/layers/layers.def").read_text()
    return dict(re.findall(r'^WEFT_LAYER\((\w+), "(.*)"\)$', text, re.MULTILINE))


def shapes():
    text = (ROOT / "mesh/layers/layer_options.def").read_text()
    return {layer: (x, y) for layer, x, y in re.findall(r'^WEFT_SHAPES\((\w+), "(.*)", "(.*)"\)$', text, re.MULTILINE)}


def options():
    """type: its options, in their order."""
    text = (ROOT / "mesh/layers/layer_options.def").read_text()
    string = r',\s+"([^"]*)"'
    row = re.compile(rf"^WEFT_OPTION\((\w+), (\w+), (\w+)(?:\(([^)]*)\))?{string * 4}\)$", re.MULTILINE)
    result = {layer: [] for layer in layers()}
    count = 0
    for layer, key, kind, arguments, *texts in row.findall(text):
        result[layer].append(Option(layer, key, kind, json.loads(f"[{arguments}]"), *texts))
        count += 1
    if count != len(re.findall(r"^WEFT_OPTION\(", text, re.MULTILINE)):
        sys.exit("mesh/layers/layer_options.def: a row of WEFT_OPTION that is not understood")
    return result


def names_of(path, macro):
    return re.findall(rf"^{macro}\((\w+),", (ROOT / path).read_text(), re.MULTILINE)


# ---------------------------------------------------------------------------------------------------- the schema

def value_schema(option):
    kind = option.kind
    arguments = [int(a) if isinstance(a, float) and a.is_integer() and abs(a) < 2**53 else a for a in option.arguments]
    if kind in ("number", "whole"):
        return {"type": "number" if kind == "number" else "integer", "minimum": arguments[0], "maximum": arguments[1]}
    if kind == "whole_list":
        low, high, fewest, most = arguments
        item = {"type": "integer", "minimum": low, "maximum": high}
        return {"anyOf": [item, {"type": "array", "minItems": fewest, "maxItems": most, "items": item}]}
    return {
        "flag": {"type": "boolean"},
        "number_list": {"type": "array", "minItems": 1, "items": {"type": "number"}},
        "bit_list": {"type": "array", "minItems": 1, "items": {"enum": [0, 1]}},
        "choice": {"enum": arguments},
        "activation": {"$ref": "#/$defs/activation"},
        "init": {"$ref": "#/$defs/init"},
        "dtype": {"$ref": "#/$defs/dtype"},
        "width": {"$ref": "#/$defs/width"},
        "layers": {"$ref": "#/$defs/inner_layers"},
    }[kind]


def options_schema(own, names):
    """The options of one layer type, whichever place it stands in."""
    by_key = {option.key: option for option in own}
    properties, required, dependent, needed_with = {}, [], {}, []
    for option in own:
        properties[option.key] = dict(value_schema(option))
        has_default, value = option.default_value(names)
        if has_default:
            properties[option.key]["default"] = value
        condition = option.condition()
        if condition is None:
            if option.default == "needed":
                required.append(option.key)
            continue
        key, values = condition
        one_of = {"properties": {key: {"enum": values}}}
        if by_key[key].default not in values:
            one_of = {"required": [key], **one_of}
        dependent[option.key] = one_of
        if option.default == "needed":
            needed_with.append({"if": {"required": [key], **one_of}, "then": {"required": [option.key]}})
    schema = {"type": "object"}
    if required:
        schema["required"] = required
    schema["properties"] = properties
    if dependent:
        schema["dependentSchemas"] = dependent
    if needed_with:
        schema["allOf"] = needed_with
    return schema


def layer_schema(layer, base, keys, own):
    return {
        "allOf": [{"$ref": f"#/$defs/{base}"}, {"$ref": f"#/$defs/options_{layer}"}],
        "properties": {**{key: True for key in keys}, "type": {"const": layer}, **{o.key: True for o in own}},
        "additionalProperties": False,
    }


def schema(weft):
    template = json.loads((ROOT / TEMPLATE).read_text())
    defs = template["$defs"]
    all_options = options()
    names = {"dtype": names_of("core/dtypes.def", "WEFT_DTYPE"),
             "activation": names_of("kernels/activations.def", "WEFT_ACTIVATION"), "init": defs["init"]["enum"]}
    declared = option_tables.declared(weft)
    for section in ("learning", "stream"):
        defs[section] = option_tables.section_schema(declared[section])
    defs["dtype"] = {"enum": names["dtype"]}
    defs["activation"] = {"enum": names["activation"]}
    types = list(all_options)
    defs["layer"] = {"oneOf": [{"$ref": f"#/$defs/layer_{t}"} for t in (*types, "registered")]}
    inner_types = [t for t in types if t not in GRID_ONLY]
    defs["inner_layer"] = {"oneOf": [{"$ref": f"#/$defs/inner_{t}"} for t in (*inner_types, "shared", "registered")]}
    defs["chain_layer"] = {"oneOf": [{"$ref": f"#/$defs/chain_{t}"} for t in (*types, "registered")]}
    for base, keys in (("layer_registered", OWN_KEYS), ("chain_registered", CHAIN_KEYS),
                       ("inner_registered", INNER_KEYS)):
        own_types = [*types, "shared"] if base == "inner_registered" else types
        defs[base]["properties"] = {**{key: True for key in (*keys, "out")}, "type": {"not": {"enum": own_types}}}
    for layer, own in all_options.items():
        defs[f"options_{layer}"] = options_schema(own, names)
        defs[f"layer_{layer}"] = layer_schema(layer, "layer_base", OWN_KEYS, own)
        defs[f"chain_{layer}"] = layer_schema(layer, "chain_base", CHAIN_KEYS, own)
        if layer in inner_types:
            defs[f"inner_{layer}"] = layer_schema(layer, "inner_base", INNER_KEYS, own)
    return template


def packed(texts, indent):
    """Comma after comma, as many a line as fit."""
    lines = [""]
    for text in texts:
        if lines[-1] and indent + len(lines[-1]) + len(text) + 3 > WIDTH:
            lines.append("")
        lines[-1] += (", " if lines[-1] else "") + text
    return (",\n" + " " * indent).join(lines)


def written(value, indent=0):
    """JSON with what fits on a line in one; neighbours that are no lists or objects share lines too."""
    line = json.dumps(value)
    if not isinstance(value, (dict, list)) or not value or len(line) + indent + 20 <= WIDTH:
        return line
    is_dict = isinstance(value, dict)
    inner = indent + 2
    blocks, simple = [], []
    for key, item in value.items() if is_dict else enumerate(value):
        head = f"{json.dumps(key)}: " if is_dict else ""
        if not isinstance(item, (dict, list)):
            simple.append(head + json.dumps(item))
            continue
        blocks += [packed(simple, inner)] if simple else []
        simple = []
        blocks.append(head + written(item, inner))
    blocks += [packed(simple, inner)] if simple else []
    body = (",\n" + " " * inner).join(blocks)
    opening, closing = "{}" if is_dict else "[]"
    return f"{opening}\n{' ' * inner}{body}\n{' ' * indent}{closing}"


# ---------------------------------------------------------------------------------------------------- the document

DOCUMENT = """# Layers

<!-- Written by tools/make_network_schema.py from mesh/layers/layers.def and mesh/layers/layer_options.def: edit those. -->

The layer types of a network's `layers`; [formats/network.md](formats/network.md) has the keys that all of them share:
`at`, `from`, `combine`, `view`, `dtype`, ... Axes are listed outermost first, `...` stands for any number of them, and
sessions are not counted. "Needed" marks an option without a default. The header of each layer has the formulas in full,
exactness, sources and errors. Numbers outside the bounds, unknown names and options that a layer does not have are
refused when the network is built, with the place in the file. `tests/mesh/layer_options_test.cpp` compares every row
below with the code. To add a layer:
[howto/add-a-layer.md](howto/add-a-layer.md).
"""


def header_of(layer):
    for path in sorted((ROOT / "mesh/layers").glob("*.hpp")):
        if f" make_{layer}(const Shape& in" in path.read_text():
            return path.name
    sys.exit(f"no header in mesh/layers declares make_{layer}")


def bound(number):
    """Powers of two from 2^16 on as such, else the number as short as it goes."""
    if isinstance(number, int) and number >= 65536 and number & (number - 1) == 0:
        return f"2^{number.bit_length() - 1}"
    if isinstance(number, int) and number >= 65535 and (number + 1) & number == 0:
        return f"2^{number.bit_length()} - 1"
    return f"{number:g}"


def limits(option):
    """What may be given, in words."""
    kind, arguments = option.kind, option.arguments
    if kind == "choice":
        return ", ".join(f"`{name}`" for name in arguments)
    if kind in ("number", "whole"):
        return f"{bound(arguments[0])} to {bound(arguments[1])}"
    if kind == "whole_list":
        low, high, fewest, most = arguments
        count = "" if fewest == most else " or more" if most > 8 else f" to {most}"
        several = "" if most == 1 else f", a list of {fewest}{count} or one for all"
        return f"{bound(low)} to {bound(high)}{several}"
    return {"flag": "`true`, `false`", "number_list": "a list of numbers", "bit_list": "a list of 0 and 1",
            "activation": "a name of [kernels/activations.def](../kernels/activations.def)",
            "dtype": "a name of [core/dtypes.def](../core/dtypes.def)", "init": "an [initializer](../mesh/layers/init.hpp)",
            "width": "1 to 2^24", "layers": "a list of layers"}[kind]


def extents_text(text):
    """`[axes]` of each alternative, after the label that it may have."""
    words = []
    for alternative in text.split(" | "):
        label, _, axes = alternative.rpartition(": ")
        words.append((f"{label}: " if label else "") + (f"`[{axes}]`" if " as " not in f" {axes}" else axes))
    return " or ".join(words) if ":" not in text else "; ".join(words)


def document():
    parts = [DOCUMENT]
    extents = shapes()
    all_options = options()
    for layer, formula in layers().items():
        header = header_of(layer)
        x, y = extents[layer]
        cell = lambda text: text.replace("|", "\\|")
        takes = (f"Takes {extents_text(x)}, gives {extents_text(y)}. "
                 f"More in [mesh/layers/{header}](../mesh/layers/{header}).")
        lines = [f"## {layer}", "", f"    {formula}", "",
                 textwrap.fill(takes, 120, break_long_words=False, break_on_hyphens=False), "",
                 "| parameter | default | unit | may be | meaning |", "|---|---|---|---|---|"]
        for o in all_options[layer]:
            only = ""
            if o.condition():
                key, values = o.condition()
                only = f" (only with `{key}` {' or '.join(f'`{value}`' for value in values)})"
            lines.append(f"| `{o.key}` | {cell(o.default)} | {o.unit} | {limits(o)} | {cell(o.meaning)}{only} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def main(arguments):
    if arguments[:1] == ["--schema"]:
        path = pathlib.Path(arguments[1])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written(schema(arguments[2])) + "\n")
        return 0
    path, text = ROOT / "docs/layers.md", document()
    if arguments != ["--check"]:
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        print("docs/layers.md is not what the rows say: run tools/make_network_schema.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
