# SPDX-License-Identifier: Apache-2.0
"""Names and texts from files, with bytes that a terminal obeys: they never reach stdout, stderr or the log as they
are."""
import os, re, socket, threading
from harness import *

# A title, a colour, a forged line, CSI as one character, an override of the direction, a character that deletes.
EVIL = ["\x1b]0;pwn\x07", "\x1b[31mred", "n\n2026-01-01 weft[1] error: forged", "a\rb", "\u009b31m", "\u202egpj.exe", "\u2066x", "\u2028x", "x\x7f\x08"]
DANGEROUS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\udc80-\udcff]")


def clean(out, arguments):
    for stream in (out.out, out.err):
        found = DANGEROUS.search(stream)
        expect(not found, f"{found and found[0]!r} was printed", arguments, out)
        expect("\n2026-01-01" not in stream, "a line was forged", arguments, out)


def succeeds(weft, arguments, exit=0):
    out = weft(*arguments)
    expect(out.exit == exit, f"exit {out.exit}, not {exit}", arguments, out)
    clean(out, arguments)
    return out


def spoiled(evil):
    spec = network(name=evil)
    spec["inputs"] = {evil: [4]}
    spec["outputs"] = {evil: [0, 0, 1, 0]}
    spec["layers"][0]["from"] = [evil]
    spec["stream"].update(input=evil, output=evil)
    return spec


@case("names in a network:", *[(e,) for e in EVIL])
def names(weft, folder, evil):
    write(f"{folder}/g.csv", table())
    net = write(f"{folder}/n.json", json.dumps(spoiled(evil)))
    log, model = f"{folder}/w.log", f"{folder}/m.entity"
    runs = [("run", net, "--log", log, "--save", model, "--state", f"{folder}/h"), ("inspect", net), ("doctor", net), ("hash", net)]
    runs += [("inspect", model), ("run", model, "--quiet"), ("sweep", model, "--seconds", "0.001"), ("replay", f"{folder}/h")]
    for arguments in runs:
        succeeds(weft, arguments)
        if arguments[0] in ("inspect", "hash", "doctor"):
            succeeds(weft, (*arguments, "--json"))
    lines = read(log).decode("utf-8", "surrogateescape")
    expect(not DANGEROUS.search(lines) and "\n2026-01-01 weft[1]" not in lines, f"in the log: {lines!r}")


@case("texts that an error repeats:", *[(f"{where} {e!r}", where, e) for where in ("type", "activation", "key", "rule", "from") for e in EVIL[:4] + EVIL[4:6]])
def errors(weft, folder, _, where, evil):
    spec = network()
    if where == "key":
        spec["layers"][0][evil] = 1
    elif where == "rule":
        spec["learning"]["rule"] = evil
    else:
        spec["layers"][0][where] = [evil] if where == "from" else evil
    write(f"{folder}/g.csv", table())
    out = weft("run", write(f"{folder}/n.json", json.dumps(spec)))
    expect(out.exit == 3 and out.err.count("\n") == 1, "not one line", (), out)
    clean(out, (where,))


@case("fields of a table:", *[(e,) for e in EVIL if "\n" not in e and "\r" not in e])
def fields(weft, folder, evil):
    net = prepare(folder)
    out = weft("run", net, "--data", write(f"{folder}/d.csv", f"1,2,{evil},4,0\n" * 3))
    expect(out.exit == 3, "a field that is no number was read", (), out)
    clean(out, ())
    labels = write(f"{folder}/d.csv", "".join(f"1,2,3,{n},{evil if n % 2 else 'b'}\n" for n in range(30)))
    model = f"{folder}/m.entity"
    for arguments in (("run", net, "--data", labels, "--save", model), ("run", net, "--data", labels, "--json"),
                      ("predict", model, "--data", labels), ("predict", model, "--data", labels, "--report"),
                      ("predict", model, "--data", labels, "--json"), ("new", "--from", labels)):
        succeeds(weft, arguments)


@case("file names and arguments:", *[(e.replace("/", ""),) for e in EVIL] + [("\udcff\udcfe",)])
def paths(weft, folder, evil):
    net = prepare(folder)
    place = f"{folder}/{evil}"
    os.mkdir(place)
    os.rename(f"{folder}/g.csv", f"{place}/g.csv"), os.rename(net, f"{place}/n.json")
    net = f"{place}/n.json"
    directory, model = f"{place}/h", f"{place}/m.entity"
    for arguments in (("run", net, "--save", model, "--log", f"{place}/w.log", "--state", directory), ("inspect", net),
                      ("pack", model, "-o", f"{place}/p.entity"), ("replay", directory), ("diff", directory, directory)):
        succeeds(weft, arguments)
    for exit, arguments in ((3, ("inspect", f"{place}/none")), (3, ("top", place)), (2, (evil,)), (2, ("run", net, "--" + evil)),
                            (2, ("run", net, "--rule", evil)), (2, ("run", net, "--lr", evil))):
        out = succeeds(weft, arguments, exit)
        expect(out.err.startswith("weft: error: "), "no word on it", arguments, out)


@case("a server that weft top asks:", *[(e,) for e in EVIL])
def server(weft, folder, evil):
    answers = [json.dumps({"weft_top": 2, "network": evil, "phase": evil, "journal": {"error": evil}, "cells": {evil: 3}, "faults": {evil: 2},
                           "degraded": [{"cell": [0, 0, 0], "status": evil}]}) + "\n", json.dumps({"error": evil}) + "\n", evil.replace("\n", "") + "\n"]
    for number, answer in enumerate(answers):
        path = f"{folder}/s{number}"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path), listening.listen(8), listening.settimeout(20)

            def serve():
                connection, _ = listening.accept()
                with connection:
                    connection.recv(4096), connection.sendall((answer * 3).encode())

            serving = threading.Thread(target=serve)
            serving.start()
            # Statistics are shown, an error is passed on, and what is no JSON is refused.
            succeeds(weft, ("top", path, "--once"), (0, 5, 3)[number])
            serving.join()
