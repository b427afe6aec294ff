#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of rooms, tools/layers.txt, for whoever needs a list made from it.

  tools/rooms.py --list             the rooms that exist, a line each, in order
  tools/rooms.py --list sanitized   those whose tests .ci/run builds with sanitizers
  tools/rooms.py --picture          the picture that docs/architecture.md shows
  tools/rooms.py --check [ROOT]     what was written by hand says the same as the table; ctest tools.rooms
"""
import pathlib
import re
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
OPEN, CLOSE = "<!-- rooms: tools/rooms.py --picture -->", "<!-- rooms end -->"


class Room(NamedTuple):
    includes: tuple   # rooms
    packages: tuple
    marks: tuple


def read(root=ROOT):
    """Every row of the table, planned rooms too."""
    rooms = {}
    for line in (root / "tools/layers.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(":")
            rooms[name] = Room(*(tuple(field.split()) for field in (rest + "||").split("|")[:3]))
    return rooms


def sources(root=ROOT, suffixes=(".cpp", ".hpp", ".def", ".inc")):
    """(path from the root, text without comments) of each file of the rooms that exist."""
    for room in existing(root):
        for path in sorted((root / room).rglob("*")):
            if path.suffix in suffixes:
                yield path.relative_to(root), re.sub(r"//[^\n]*", "", path.read_text())


def existing(root=ROOT):
    """The rooms that have a folder; of each, the existing rooms that it may include."""
    rooms = {name: room for name, room in read(root).items() if (root / name).is_dir()}
    return {name: room._replace(includes=tuple(i for i in room.includes if i in rooms)) for name, room in rooms.items()}


def picture(root=ROOT):
    """Rooms by floor, highest first; beside each the rooms that it rests on, less those that these rest on
    themselves."""
    rooms, below, floor = existing(root), {}, {}
    for name, room in rooms.items():
        below[name] = set(room.includes).union(*(below[i] for i in room.includes))
        floor[name] = 1 + max((floor[i] for i in room.includes), default=-1)
    lines = ["floor  room        rests on"]
    for name in sorted(rooms, key=lambda n: -floor[n]):  # stable: within a floor, the table's order
        direct = [i for i in rooms[name].includes if not any(i in below[j] for j in rooms[name].includes)]
        lines.append(f"{floor[name]:5}  {name:<10}  {', '.join(direct)}".rstrip())
    return "\n".join(lines)


def check_table(root, rooms, errors):
    """README's table, or the page's that has it: | [mesh](mesh/README.md) | ... | core topology |"""
    row = re.compile(r"^\| \[([a-z]+)\]\([./]*\1/README\.md\) \|.*\| ([a-z ]+) \|$", re.MULTILINE)
    for page in ("README.md", "docs/architecture.md"):
        found = dict(row.findall((root / page).read_text()))
        if found:
            break
    else:
        errors.append("README.md: has no table of rooms, | [core](core/README.md) | ... | nothing |")
        return
    if list(found) != list(rooms):
        errors.append(f"{page}: its table has the rooms {' '.join(found)}; tools/layers.txt {' '.join(rooms)}")
    for name in (n for n in rooms if n in found):
        includes, others = list(rooms[name].includes), [n for n in rooms if n != name]
        wanted = " ".join(includes) or "nothing"
        if found[name] != wanted and not (found[name] == "all" and includes == others):
            errors.append(f"{page}: {name} may include '{found[name]}'; tools/layers.txt says '{wanted}'")


def check_picture(root, errors):
    text = (root / "docs/architecture.md").read_text()
    if text.partition(OPEN)[2].partition(CLOSE)[0].strip() != f"```text\n{picture(root)}\n```":
        errors.append(f"docs/architecture.md: between '{OPEN}' and '{CLOSE}' stands not what tools/rooms.py --picture prints")


def check_format(root, rooms, errors):
    """.clang-format: a room's includes stand above those of the rooms that it may include."""
    text, place = (root / ".clang-format").read_text(), {}
    for names, priority in re.findall(r'Regex: "\^\\"\(?([a-z|]+)\)?/", Priority: (\d+)', text):
        place.update((name, int(priority)) for name in names.split("|"))
    errors += [f".clang-format: IncludeCategories lack {name}" for name in rooms if name not in place]
    errors += [f".clang-format: IncludeCategories name {name}, which is no room" for name in place if name not in read(root)]
    for name, room in rooms.items():
        errors += [f".clang-format: {i} stands above {name}, which includes it"
                   for i in room.includes if name in place and place.get(i, 99) < place[name]]


def check_tidy(root, rooms, errors):
    found = re.search(r"HeaderFilterRegex: '/\(([a-z|]+)\)/'", (root / ".clang-tidy").read_text())
    names = found[1].split("|") if found else []
    if names != list(rooms):
        errors.append(f".clang-tidy: HeaderFilterRegex names {'|'.join(names)}; tools/layers.txt {'|'.join(rooms)}")


def check(root=ROOT):
    errors, rooms = [], existing(root)
    check_table(root, rooms, errors)
    check_picture(root, errors)
    check_format(root, rooms, errors)
    check_tidy(root, rooms, errors)
    return errors


def main(arguments):
    if arguments[:1] == ["--list"]:
        print("\n".join(n for n, room in existing().items() if set(arguments[1:]) <= set(room.marks)))
    elif arguments == ["--picture"]:
        print(picture())
    elif arguments[:1] == ["--check"]:
        errors = check(*map(pathlib.Path, arguments[1:2]))
        print("\n".join(errors) if errors else "rooms: fine")
        return bool(errors)
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
