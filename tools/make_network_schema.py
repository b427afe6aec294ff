#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of network files, and a page of the layers, made of what the program itself says.

`weft layers --json` lists layers with their options, `weft options --json` those of its sections;
the rest stands in tools/network_schema_template.json. The build installs both files; neither is in git.

  tools/make_network_schema.py --schema FILE WEFT   share/weft/network.schema.json
  tools/make_network_schema.py --page FILE WEFT     share/doc/weft/layer_options.md
  tools/make_network_schema.py --layers LISTING     on stdout what the schema says of layers, of a file with lines of
                                                    `weft layers --json`
"""
import json
import pathlib
import subprocess
import sys

import option_tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEMPLATE = "tools/network_schema_template.json"
WIDTH = 120

# Keys of every layer, and of every layer inside a container; `out` is an option of those types that have a row for it.
OWN_KEYS = ["at", "repeat", "type", "view", "shape", "from", "neighbours", "combine", "dtype", "granularity", "activations",
            "activation_dtype", "gradient_dtype", "qat", "rate_scale", "freeze", "policy", "device"]
CHAIN_KEYS = [key for key in OWN_KEYS if key not in ("at", "repeat", "from", "neighbours", "combine")]
INNER_KEYS = ["type", "name", "view", "from", "combine", "dtype", "granularity", "activations", "qat", "rate_scale",
              "freeze", "policy", "device"]
GRID_ONLY = ["metacognition"]  # a container refuses what observes


def parse_layers(text):
    """Layers of lines of JSON, by type."""
    return {layer["type"]: layer for layer in map(json.loads, text.splitlines())}


def layers(weft):
    return parse_layers(subprocess.run([weft, "layers", "--json"], capture_output=True, text=True, check=True).stdout)


# ---------------------------------------------------------------------------------------------------- the schema

def options_schema(rows):
    """Options of one layer type, whichever place it is in."""
    schema = option_tables.section_schema(rows)
    del schema["additionalProperties"]
    return schema


def layer_schema(layer, base, keys, rows):
    return {
        "allOf": [{"$ref": f"#/$defs/{base}"}, {"$ref": f"#/$defs/options_{layer}"}],
        "properties": {**{key: True for key in keys}, "type": {"const": layer}, **{row["key"]: True for row in rows}},
        "additionalProperties": False,
    }


def layer_defs(all_layers):
    """{name: definition} of layers and of the sets of names that their options share."""
    defs = {}
    for layer, listed in all_layers.items():
        rows = listed["options"]
        for row in rows:
            if "set" in row and "names" in row:
                defs[row["set"]] = {"enum": row["names"]}
        defs[f"options_{layer}"] = options_schema(rows)
        defs[f"layer_{layer}"] = layer_schema(layer, "layer_base", OWN_KEYS, rows)
        defs[f"chain_{layer}"] = layer_schema(layer, "chain_base", CHAIN_KEYS, rows)
        if layer not in GRID_ONLY:
            defs[f"inner_{layer}"] = layer_schema(layer, "inner_base", INNER_KEYS, rows)
    return defs


def schema(weft):
    template = json.loads((ROOT / TEMPLATE).read_text())
    defs = template["$defs"]
    declared = option_tables.declared(weft)
    for section in ("learning", "stream", "reinforcement"):
        defs[section] = option_tables.section_schema(declared[section])
    all_layers = layers(weft)
    types = list(all_layers)
    inner_types = [t for t in types if t not in GRID_ONLY]
    defs["layer"] = {"oneOf": [{"$ref": f"#/$defs/layer_{t}"} for t in (*types, "registered")]}
    defs["inner_layer"] = {"oneOf": [{"$ref": f"#/$defs/inner_{t}"} for t in (*inner_types, "shared", "registered")]}
    defs["chain_layer"] = {"oneOf": [{"$ref": f"#/$defs/chain_{t}"} for t in (*types, "registered")]}
    for base, keys in (("layer_registered", OWN_KEYS), ("chain_registered", CHAIN_KEYS),
                       ("inner_registered", INNER_KEYS)):
        own_types = [*types, "shared"] if base == "inner_registered" else types
        defs[base]["properties"] = {**{key: True for key in (*keys, "out")}, "type": {"not": {"enum": own_types}}}
    defs.update(layer_defs(all_layers))
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


# ---------------------------------------------------------------------------------------------------- the page

PAGE = """# Layers and their options

Made by the build of what `weft layers --json` says. Axes are listed outermost first, `...` stands for any number of them, and
sessions are not counted. "needed": an option without a default.
"""


def page(all_layers):
    parts = [PAGE]
    for layer, listed in all_layers.items():
        parts.append(f"## {layer}\n\n    {listed['formula']}\n\nTakes `[{listed['takes']}]`, gives `[{listed['gives']}]`.\n\n"
                     + option_tables.table(listed["options"]))
    return "\n".join(parts)


def write(path, text):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--layers":
        print(json.dumps(layer_defs(parse_layers(pathlib.Path(arguments[1]).read_text()))))
    elif len(arguments) == 3 and arguments[0] == "--schema":
        write(arguments[1], written(schema(arguments[2])) + "\n")
    elif len(arguments) == 3 and arguments[0] == "--page":
        write(arguments[1], page(layers(arguments[2])))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
