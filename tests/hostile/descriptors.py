# SPDX-License-Identifier: Apache-2.0
"""Descriptors 0 to 2 closed, full, or read by nobody: nothing of it reaches a file, and lost results are a failure."""
import itertools, os, signal, subprocess, time
from harness import *

CLOSED = [c for n in (1, 2, 3) for c in itertools.combinations((0, 1, 2), n)]


def closing(descriptors):
    return lambda: [os.close(d) for d in descriptors]


def foreign_text(folder):
    """Files below whose bytes are words of the program's."""
    words = (b"weft: ", b"held out", b"state hash", b'"event"', b"samples,")
    for base, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(base, name)
            if name.endswith((".entity", "manifest.json")) or not os.path.isfile(path):
                continue  # binary, hashed and verified below
            if any(word in read(path) for word in words):
                yield path


@case("a data directory stays clean with these closed:", *[(c, j) for c in CLOSED for j in ([], ["--json"])])
def directory(weft, folder, closed, json):
    net = prepare(folder)
    directory = f"{folder}/agent"
    out = weft("run", net, "--epochs", 300, "--state", directory, *json, before=closing(closed), stdin=None)
    expect(out.exit == (5 if 1 in closed else 0), f"exit {out.exit}", closed, out)
    expect(list(foreign_text(directory)) == [], f"words in {list(foreign_text(directory))}")
    again = weft("run", net, "--epochs", 300, "--state", directory)
    undisturbed = weft("run", net, "--epochs", 300)
    expect(again.exit == 0 and state_hash(again) == state_hash(undisturbed), "another state hash", (), again)
    verified = weft("replay", directory, "--verify")
    expect(verified.exit == 0, "not verified", (), verified)


@case("results that go nowhere are a failure:", ("hash",), ("inspect",), ("run",), ("doctor",))
def nowhere(weft, folder, verb):
    out = weft(verb, prepare(folder), before=closing([1]))
    expect(out.exit == 5 and "stdout" in out.err, "not told", (verb,), out)


@case("a full disk behind stdout is a failure:", ("--help",), ("--version",), ("run --help",), ("doctor",), ("hash N",), ("run N",))
def full(weft, folder, line):
    net = prepare(folder)
    with open("/dev/full", "wb") as sink:
        out = weft(*[net if word == "N" else word for word in line.split()], stdout=sink)
    expect(out.exit == 5 and "stdout" in out.err, "not told", (line,), out)


@case("a reader who has seen enough gets no error message:", ("inspect",), ("hash",), ("doctor",), ("run",))
def head(weft, folder, verb):
    net = prepare(folder)
    for ignored in (signal.SIG_DFL, signal.SIG_IGN):  # as from a shell, and as from a service manager
        readable, writable = os.pipe()
        os.close(readable)
        with os.fdopen(writable, "wb") as sink:
            out = weft(verb, net, *(["--quiet"] if verb == "run" else []), stdout=sink,
                       before=lambda: signal.signal(signal.SIGPIPE, ignored))
        expect(out.exit == 141 and out.err == "", "not quiet", (verb,), out)
