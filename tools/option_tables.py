#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema and the tables of options, of the rows that the program lists (core/option_row.hpp)."""
import json


# ---------------------------------------------------------------------------------------------------- the schema

def bounded(schema, row):
    """Bounds of a number."""
    low = row.get("low", 0 if schema["type"] == "integer" else None)
    high = row.get("high", 2**64 - 1 if schema["type"] == "integer" else None)
    return {**schema, **({} if low is None else {"minimum": low}), **({} if high is None else {"maximum": high})}


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
        unit = "" if row["unit"] == "-" else f" {row['unit']}"
        cells = [f"`{row['key']}`", default_text(row), row["limits"] + unit, row["meaning"] + condition_text(row)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
