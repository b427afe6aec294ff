#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Manual pages and shell completions of weft, made of what `weft --help` and `weft VERB --help` say. The pages' date
is that of SOURCE_DATE_EPOCH, or of the newest version that CHANGELOG.md dates, so that builds are the same.

    make_cli_pages.py WEFT DIR      writes DIR/man/*.1, DIR/bash/weft, DIR/zsh/_weft, DIR/fish/weft.fish
"""
import datetime
import os
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass, field

MONTHS = ("January February March April May June July August September October November December").split()
MARGIN = 30  # column at which CLI11 writes descriptions
ENUM = re.compile(r"^[a-z0-9_]+(\|[a-z0-9_]+)+$")
EXITS = [("0", "Done."), ("1", "A mesh that halted, or a defect of Weft."), ("2", "Usage: an option or a value of one."),
         ("3", "A file that is refused."), ("5", "Storage: a file could not be read or written."),
         ("128+N", "Ended by signal N, with a checkpoint where there is a directory for it.")]


@dataclass
class Option:
    names: list
    value: str = ""  # what its value is; empty: a flag
    words: list = field(default_factory=list)  # values to choose from
    environment: str = ""
    is_required: bool = False
    text: str = ""

    @property
    def long(self):
        return next(name for name in self.names if name.startswith("--"))


@dataclass
class Verb:
    words: list  # ["session", "detach"]
    summary: str = ""
    usage: str = ""
    positionals: list = field(default_factory=list)
    options: list = field(default_factory=list)
    verbs: list = field(default_factory=list)


def entries(lines):
    """(head, description) of each entry of a section of CLI11's help."""
    found = []
    for line in lines:
        if line[:MARGIN].strip():
            # A head that fills the column up to its last place ends there with the variable's bracket.
            fits = line[MARGIN - 2:MARGIN] in ("  ", ") ")
            head, rest = (line[:MARGIN], line[MARGIN:]) if fits else (line, "")
            found.append([head.strip(), rest.strip()])
        elif found:
            found[-1][1] = (found[-1][1] + " " + line.strip()).strip()
    return found


def option_of(head, text):
    environment = re.search(r"\(Env:(\w+)\)", head)
    head = re.sub(r"\s*\(Env:\w+\)", "", head)
    names, _, value = head.partition(" ")
    is_required = value.endswith("REQUIRED")
    value = value.removesuffix("REQUIRED").strip()
    choice = re.search(r"\{([^}]*)\}", value)
    words = value.split("|") if ENUM.match(value) else choice.group(1).split(",") if choice else []
    return Option(names.split(","), value, words, environment.group(1) if environment else "", is_required, text)


def read_verb(program, words):
    help_text = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout
    verb = Verb(words)
    head, *sections = re.split(r"^(Positionals|Options|Subcommands):\n", help_text, flags=re.M)
    verb.summary, _, usage = head.strip().partition("\nUsage: ")
    verb.usage = usage.split("\n")[0].removeprefix("weft").strip()
    for name, body in zip(sections[::2], sections[1::2]):
        for entry, text in entries(body.splitlines()):
            if name == "Subcommands":
                verb.verbs.append(read_verb(program, [*words, entry]))
            else:
                (verb.options if name == "Options" else verb.positionals).append(option_of(entry, text))
    return verb


def every(verb):
    yield verb
    for inner in verb.verbs:
        yield from every(inner)


# Manual pages, in man(7).

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def page_name(verb):
    return "-".join(["weft", *verb.words])


def man_option(option):
    names = ", ".join("\\fB" + roff(name) + "\\fR" for name in option.names)
    value = f" \\fI{roff(option.value)}\\fR".replace("|", "|\\:") if option.value else ""  # may be broken there
    text = roff(option.text) + (" (required)" if option.is_required else "")
    text = text[:1].upper() + text[1:]
    environment = f" Environment: \\fB{option.environment}\\fR." if option.environment else ""
    return f".TP\n{names}{value}\n{text}.{environment}\n"


def page_date():
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if epoch.isdigit():
        return datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).strftime("%Y-%m-%d")
    changes = (pathlib.Path(__file__).resolve().parent.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    day, month, year = re.search(r"^## [0-9.]+, (\d+) (\w+) (\d{4})$", changes, re.M).groups()
    return f"{year}-{MONTHS.index(month) + 1:02}-{int(day):02}"


def manual(verb, version):
    name = page_name(verb)
    command = " ".join(["weft", *verb.words])
    summary = verb.summary or "a verb of weft"
    page = [f'.TH {roff(name.upper())} 1 "{page_date()}" "weft {version}" "Weft"\n.ad l\n',
            f".SH NAME\n{roff(name)} \\- {roff(summary[:1].lower() + summary[1:])}\n",
            f".SH SYNOPSIS\n.B {roff(command)}\n{roff(verb.usage.removeprefix(' '.join(verb.words)).strip())}\n"]
    for title, options in (("ARGUMENTS", verb.positionals), ("OPTIONS", verb.options)):
        if options:
            page.append(f".SH {title}\n" + "".join(map(man_option, options)))
    if verb.verbs:
        page.append(".SH COMMANDS\n" + "".join(
            f".TP\n\\fB{roff(page_name(inner))}\\fR(1)\n{roff(inner.summary)}.\n" for inner in verb.verbs))
    page.append(".SH EXIT STATUS\n" + "".join(f".TP\n.B {roff(code)}\n{roff(text)}\n" for code, text in EXITS))
    others = ", ".join(f"\\fB{roff(other)}\\fR(1)" for other in (["weft"] if verb.words else []) +
                       [page_name(inner) for inner in verb.verbs]) or "\\fBweft\\fR(1)"
    page.append(f".SH SEE ALSO\n{others}; cli.md and agents.md in the documentation's directory.\n")
    return "".join(page)


# Completions.

def offered(verb):
    """Words that may follow a verb: its verbs, and its options' names."""
    return [inner.words[-1] for inner in verb.verbs] + [name for option in verb.options for name in option.names]


def bash(root):
    cases = []
    for verb in every(root):
        key = " ".join(verb.words)
        cases.append(f"    '{key}') words='{' '.join(offered(verb))}' ;;")
    values, places = [], []
    for verb in every(root):
        for option in verb.options:
            if option.words:
                key = " ".join([*verb.words, option.long])
                values.append(f"    '{key}') words='{' '.join(option.words)}' ;;")
        for option in verb.positionals:
            if option.words:
                places.append(f"      '{' '.join(verb.words)}') words=\"$words {' '.join(option.words)}\" ;;")
    verbs = " ".join(f"'{' '.join(verb.words)}'" for verb in every(root) if verb.words)
    taking = " ".join(sorted({name for verb in every(root) for option in verb.options if option.value
                              for name in option.names}))
    return f"""# SPDX-License-Identifier: Apache-2.0
# bash completion of weft(1). Made by tools/make_cli_pages.py.
_weft() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD - 1]}}"
  local verb='' word words='' i each
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{verb:+$verb }}${{COMP_WORDS[i]}}"
    for each in {verbs}; do
      if [[ $word == "$each" ]]; then verb=$word; fi
    done
  done
  case "$verb $previous" in
{chr(10).join(values)}
  esac
  if [[ -z $words && " {taking} " == *" $previous "* ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    return
  fi
  if [[ -z $words ]]; then
    case "$verb" in
{chr(10).join('  ' + case for case in cases)}
    esac
    case "$verb" in
{chr(10).join(places)}
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  if [[ ${{#COMPREPLY[@]}} -eq 0 ]]; then mapfile -t COMPREPLY < <(compgen -f -- "$current"); fi
}}
complete -o filenames -F _weft weft
"""


def zsh_text(text):
    return re.sub(r"(['\[\]:\\])", lambda m: "'\\''" if m.group(1) == "'" else "\\" + m.group(1), text)


def zsh_arguments(verb):
    rows = []
    for option in verb.options:
        action = ""
        if option.value:
            action = ":value:(" + " ".join(option.words) + ")" if option.words else ":value:_files"
        for name in option.names:
            rows.append(f"'{name}[{zsh_text(option.text)}]{action}'")
    for option in verb.positionals:
        rows.append("'*::" + zsh_text(option.names[0].lower()) +
                    (":(" + " ".join(option.words) + ")'" if option.words else ":_files'"))
    return rows


def zsh(root):
    functions = []
    for verb in every(root):
        name = "_" + "_".join(["weft", *verb.words])
        rows = " \\\n    ".join(zsh_arguments(verb))
        if not verb.verbs:
            functions.append(f"{name}() {{\n  _arguments -s \\\n    {rows}\n}}\n")
            continue
        inner = "\n    ".join(f"'{each.words[-1]}:{zsh_text(each.summary)}'" for each in verb.verbs)
        functions.append(f"""{name}() {{
  local context state state_descr line
  typeset -A opt_args
  local -a verbs
  verbs=(
    {inner}
  )
  _arguments -C \\
    {rows} \\
    '1: :->verb' '*:: :->rest'
  case $state in
    verb) _describe verb verbs ;;
    rest) (( $+functions[{name}_$words[1]] )) && {name}_$words[1] ;;
  esac
}}
""")
    return ("#compdef weft\n# SPDX-License-Identifier: Apache-2.0\n# zsh completion of weft(1). Made by "
            "tools/make_cli_pages.py.\n\n" + "\n".join(functions) + '\nif [[ $funcstack[1] == _weft ]]; then _weft "$@"; '
            "else compdef _weft weft; fi\n")


def fish_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(root):
    lines = ["# SPDX-License-Identifier: Apache-2.0", "# fish completion of weft(1). Made by tools/make_cli_pages.py."]
    for verb in every(root):
        seen = " and ".join(f"__fish_seen_subcommand_from {word}" for word in verb.words).replace(" and ", "; and ")
        inner = " ".join(each.words[-1] for each in verb.verbs)
        condition = "; and ".join(filter(None, [seen, inner and f"not __fish_seen_subcommand_from {inner}"]))
        for each in verb.verbs:
            lines.append(f"complete -c weft -f -n {fish_text(condition)} -a {each.words[-1]} -d {fish_text(each.summary)}")
        for option in verb.options:
            names = " ".join(("-l " if name.startswith("--") else "-s ") + name.lstrip("-") for name in option.names)
            value = f" -x -a {fish_text(' '.join(option.words))}" if option.words else " -r" if option.value else ""
            lines.append(f"complete -c weft -n {fish_text(condition)} {names}{value} -d {fish_text(option.text)}")
        for option in verb.positionals:
            if option.words:
                lines.append(f"complete -c weft -f -n {fish_text(condition)} -a {fish_text(' '.join(option.words))}")
    return "\n".join(lines) + "\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    root = read_verb(program, [])
    for verb in every(root):
        write(folder / "man" / (page_name(verb) + ".1"), manual(verb, version))
    write(folder / "bash" / "weft", bash(root))
    write(folder / "zsh" / "_weft", zsh(root))
    write(folder / "fish" / "weft.fish", fish(root))


if __name__ == "__main__":
    main()
