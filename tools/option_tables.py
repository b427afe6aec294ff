#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables and JSON Schema of the options that `weft options --json` declares.

  tools/option_tables.py --check WEFT   fails where docs/formats/network.md or top.md say anything else
  tools/option_tables.py --write WEFT   writes their tables anew

A table stands between `<!-- options SECTION -->` and `<!-- end -->`.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = ["docs/formats/network.md", "docs/formats/top.md"]
MARKED = re.compile(r"(<!-- options ([\w.]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def declared(weft):
    """{section: its rows}, as the program declares them."""
    made = subprocess.run([weft, "options", "--json"], capture_output=True, text=True, check=True)
    return {row.pop("section"): row["options"] for row in map(json.loads, made.stdout.splitlines())}


def rows_of(sections, path):
    """The rows of "learning.optimizer"."""
    name, *inner = path.split(".")
    rows = sections[name]
    for key in inner:
        rows = next(row for row in rows if row["key"] == key)["options"]
    return rows


# ---------------------------------------------------------------------------------------------------- the schema

def bounded(schema, row):
    """Bounds of a number."""
    low = row.get("low", 0 if schema["type"] == "integer" else None)
    high = row.get("high", 2**64 - 1 if schema["type"] == "integer" else None)
    return {**schema, **({} if low is None else {"minimum": low}), **({} if high is None else {"maximum": high})}


NESTED = {"head_classes"}  # lists of lists of texts


def value_schema(row):
    kind = row["kind"]
    size = {key: row[own] for key, own in (("minItems", "fewest"), ("maxItems", "most")) if own in row}
    column = {"$ref": "#/$defs/column"}
    text = {"type": "string", "maxLength": row.get("most", 4096) if kind == "text" else 4096}
    whole, number = bounded({"type": "integer"}, row), bounded({"type": "number"}, row)
    schema = {
        "flag": lambda: {"type": "boolean"},
        "whole": lambda: whole,
        "number": lambda: number,
        "text": lambda: text,
        "choice": lambda: {"enum": row["names"]},
        "column": lambda: column,
        "whole_list": lambda: {"type": "array", **size, "items": whole},
        "number_list": lambda: {"type": "array", **size, "items": number},
        "text_list": lambda: {"type": "array", **size, "uniqueItems": True, "items": text},
        "column_list": lambda: {"type": "array", **size, "items": column},
        "section": lambda: section_schema(row["options"]),
        "layers": lambda: {"$ref": "#/$defs/inner_layers"},
    }[kind]()
    if "set" in row:
        schema = {"$ref": f"#/$defs/{row['set']}"}
    if row.get("one_for_all"):
        schema = {"anyOf": [whole, schema]}
    if row["key"] in NESTED:
        schema = {"type": "array", **size, "items": {"type": "array", "uniqueItems": True, "items": text}}
    return {**schema, "default": row["default"]} if "default" in row else schema


def section_schema(rows):
    """An object with these options, and no others."""
    schema = {"type": "object", "additionalProperties": False}
    required = [row["key"] for row in rows if row.get("needed") and "only_with" not in row]
    if required:
        schema["required"] = required
    schema["properties"] = {row["key"]: value_schema(row) for row in rows}
    conditions, needed = {}, []
    for row in rows:
        if "only_with" not in row:
            continue
        key, _, values = row["only_with"].partition("=")
        one_of = {"properties": {key: {"enum": values.split("|")}}}
        default = next(other.get("default") for other in rows if other["key"] == key)
        conditions[row["key"]] = one_of if default in values.split("|") else {"required": [key], **one_of}
        if row.get("needed"):
            needed.append({"if": conditions[row["key"]], "then": {"required": [row["key"]]}})
    if conditions:
        schema["dependentSchemas"] = conditions
    if needed:
        schema["allOf"] = needed
    return schema


# ---------------------------------------------------------------------------------------------------- the tables

def default_text(row):
    if row.get("needed"):
        return "needed" if "only_with" in row else "required"
    if "default_words" in row:
        return row["default_words"]
    value = row.get("default")
    if value is None or value in ([], ""):
        return "none"
    return f"`{value}`" if isinstance(value, str) else json.dumps(value)


def condition_text(row):
    for key, words in (("only_with", "only with"), ("applies", "counts with")):
        if key in row:
            name, _, values = row[key].partition("=")
            return f" ({words} `{name}` {', '.join(f'`{value}`' for value in values.split('|'))})"
    return ""


def table(rows):
    lines = ["| key | default | may be | meaning |", "|---|---|---|---|"]
    for row in rows:
        unit = "" if row["unit"] == "-" else f", {row['unit']}" if row["limits"].startswith("a ") else f" {row['unit']}"
        cells = [f"`{row['key']}`", default_text(row), row["limits"] + unit, row["meaning"] + condition_text(row)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def statistics_table(rows):
    lines = ["| key | unit | meaning |", "|---|---|---|"]
    return "\n".join(lines + [f"| `{row['key']}` | {row['unit']} | {row['meaning']} |" for row in rows]) + "\n"


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in ("--check", "--write"):
        sys.exit(__doc__)
    sections = declared(arguments[1])
    missing = set(sections)

    def made_of(match):
        missing.discard(match[2].partition(".")[0])
        make = statistics_table if match[2] == "statistics" else table
        return match[1] + make(rows_of(sections, match[2])) + match[3]

    for page in PAGES:
        path = ROOT / page
        text = path.read_text()
        made = MARKED.sub(made_of, text)
        if arguments[0] == "--write":
            path.write_text(made)
        elif made != text:
            sys.exit(f"{page} does not say what the options say: run tools/option_tables.py --write WEFT")
    if missing:
        sys.exit(f"no page has a table of {', '.join(sorted(missing))}")


if __name__ == "__main__":
    main(sys.argv[1:])
