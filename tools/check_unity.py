#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of a room are compiled in batches (WEFT_UNITY, docs/building.md), so they share their anonymous namespaces. Finds,
room by room, without a compiler:

  a name in anonymous namespaces of two files, unless both are functions of other parameters or the same alias
  a constant or type in an anonymous namespace that is named as one in a header which the room's files see
  a using-declaration of a name that a header of the room declares
  a test file whose namespace is not its own: tests/mesh/tick_test.cpp has weft::mesh::tick_test

Kernels stay out where they are compiled once an instruction set. Arguments: another folder to check in place of the tree.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXTS = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^(]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
NAMESPACE = re.compile(r"(?:^|\s)(?:inline )?namespace(?:\s+([\w:]+))?$")
TYPE = re.compile(r"(?:struct|class|enum class|enum|union) (\w+)")
FUNCTION = re.compile(r"([~\w]+|operator\S+) ?\(((?:[^()]|\([^()]*\))*)\)[^()]*$")
ALONE = re.compile(r"^#define (?:[A-Z]+_IMPLEMENTATION|WEFT_THIS_FILE)", re.M)


def statements(text):
    """Declarations at namespace scope: (namespaces, text up to its body)."""
    text = DIRECTIVE.sub("", TEXTS.sub(lambda m: '""' if m[0][0] in "\"'R" else "", re.sub(r"(?<=\w)'(?=\w)", "", text)))
    scopes, head = [], ""
    for token in re.findall(r"[{};]|[^{};]+", text):
        at_namespace = all(kind == "namespace" for kind, _ in scopes)
        if token == "{":
            opened = NAMESPACE.search(head.strip()) if at_namespace else None
            if opened:
                names = (opened[1] or "").split("::")
                scopes.append(("namespace", tuple(names)))
                head = ""
            else:
                scopes.append(("body", head))
                if not at_namespace:
                    continue
                head += "{}"
        elif token == "}":
            kind, _ = scopes.pop() if scopes else ("namespace", ())
            if kind == "namespace":
                head = ""
            elif all(kind == "namespace" for kind, _ in scopes) and is_function(head):
                yield path_of(scopes), head
                head = ""
        elif at_namespace:
            if token == ";":
                yield path_of(scopes), head
                head = ""
            else:
                head += token


def path_of(scopes):
    return tuple(name for _, names in scopes for name in names)


def is_function(head):
    head = head.replace("{}", "").strip()
    if "=" in head.partition("(")[0].replace("operator=", ""):
        return False  # a variable that is made by a call
    return head.endswith((")", "const", "noexcept", "override")) or re.search(r"\) (?:noexcept )?->[^=]*$", head)


def split(text):
    """At the commas outside of all brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "<([{") - (c in ">)]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def names(declaration):
    """(name, kind) of what a declaration declares; of a function the kind says its parameters' types."""
    text = re.sub(r"\s+", " ", re.sub(r"\[\[[^]]*\]\]", "", declaration)).strip()
    template = ""
    if text.startswith("template"):
        depth = 0
        for i, c in enumerate(text):
            depth += (c == "<") - (c == ">")
            if c == ">" and depth == 0:
                template, text = "template ", text[i + 1:].strip()
                break
    used = re.match(r"using (?!namespace|enum)[\w:]+::(\w+)$", text)
    if used:
        yield used[1], "using"
    if not text or used or re.match(r"using namespace|using enum|friend|static_assert|extern|namespace|return\b", text):
        return
    alias = re.match(r"using (\w+) = (.*)", text)
    found = TYPE.match(text)
    if alias:
        yield alias[1], "alias " + alias[2]
    elif found and not re.match(r"[^{]*\(", text):
        if "{}" in text:
            yield found[1], "type"
    else:
        text = text.replace("{}", "") if is_function(text) else text
        function = FUNCTION.search(text) if is_function(text) else None
        if function:
            if "::" not in text[:function.start(2)].split(" ")[-1]:
                types = [re.sub(r"(?<=[\s&*>])\w+$", "", re.sub(r" ?=.*", "", part)).strip() for part in split(function[2])]
                yield function[1], f"function {template}({', '.join(types)})"
        elif "::" not in text.split("=")[0].split(" ")[-1]:
            first, *others = split(re.sub(r"^(?:static |inline |constexpr |constinit |const |thread_local )+", "", text))
            named = re.match(r".*?[\s&*>](\w+)(?:\[[^]]*\])*(?: ?=.*|\{\}.*)?$", first)
            for word in ([named[1]] if named else []) + [re.match(r"\W*(\w*)", other)[1] for other in others]:
                yield word, "variable"


def read(path):
    for scopes, declaration in statements(path.read_text()):
        for name, kind in names(declaration):
            yield scopes, name, kind


def clash(kinds):
    """True when one name with these kinds, each of another file, cannot stand in one batch."""
    if all(kind.startswith("function") for kind in kinds):
        return len(set(kinds)) < len(kinds)
    return not (len(set(kinds)) == 1 and kinds[0].startswith("alias"))


def check_room(folder, sources, seen):
    found = collections.defaultdict(dict)
    for path in sources:
        for scopes, name, kind in read(path):
            if kind == "using" and (header := seen(scopes[:scopes.index("")] if "" in scopes else scopes, name, exact=True)):
                yield f"{path.relative_to(folder)}: 'using ...::{name}' clashes with the {name} of {header} in the files after it"
            if "" not in scopes or kind == "using" or not re.match(r"\w+$", name):
                continue
            outer = scopes[:scopes.index("")]
            found[outer, scopes, name].setdefault(path, kind)
    for (outer, _, name), by_file in sorted(found.items(), key=lambda item: item[0][2]):
        files = sorted(by_file)
        if len(files) > 1 and clash([by_file[path] for path in files]):
            places = " and ".join(str(path.relative_to(folder)) for path in files)
            yield f"{places}: both have '{name}' in the anonymous namespace of {'::'.join(outer)}; name one otherwise"
        for path in files:
            if by_file[path] in ("variable", "type") and (header := seen(outer, name)):
                yield f"{path.relative_to(folder)}: '{name}' in its anonymous namespace hides that of {header} from the files after it"


def check(folder):
    rooms = [path for path in sorted(folder.iterdir()) if path.is_dir() and path.name not in ("build", "tests", "bench", "examples")]
    declared = collections.defaultdict(list)
    for path in (header for room in rooms for header in room.rglob("*.hpp")):
        if not path.name.endswith("-inl.hpp"):
            for scopes, name, kind in read(path):
                if kind in ("variable", "type"):
                    declared[name].append((scopes, path.relative_to(folder)))

    def seen(outer, name, exact=False):
        for scopes, path in declared[name]:
            if scopes == (outer if exact else outer[:len(scopes)]):
                return path
        return None

    batches = [room.rglob("*.cpp") for room in rooms]
    batches += [path.parent.glob("*.cpp") for path in folder.glob("bench/*/main.cpp")]
    batches += [(path for path in room.glob("*.cpp") if not path.stem.endswith("_test")) for room in folder.glob("tests/*/")]
    for sources in batches:
        yield from check_room(folder, [path for path in sorted(sources) if not ALONE.search(path.read_text())], seen)
    for path in sorted(folder.glob("tests/*/*_test.cpp")):
        spaces = re.findall(r"^namespace (weft(?:::\w+)*) \{$", path.read_text(), re.M)
        if any(not space.endswith("::" + path.stem) for space in spaces):
            yield f"{path.relative_to(folder)}: its namespace ends with ::{path.stem}, so that other tests may have the same names"


if __name__ == "__main__":
    if len(sys.argv) > 2 or sys.argv[1:2] == ["--help"]:
        sys.exit(__doc__)
    errors = list(check(pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) == 2 else ROOT))
    print(*errors, sep="\n", end="\n" if errors else "")
    sys.exit(1 if errors else 0)
