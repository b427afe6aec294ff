# SPDX-License-Identifier: Apache-2.0
"""Rows that arrive by a pipe: cut at any byte, of odd bytes, without an end. A word that names the line, nothing of it
learned, nothing before it lost, within bounded memory."""
import json, random, resource, subprocess
from harness import *

LATE = {"rule": "backprop", "schedule": "settle", "optimizer": {"lr": 0.05}, "late": "meet", "patience": 4}


def fed(weft, content, *arguments, limit=LIMIT, **more):
    content = content.encode() if isinstance(content, str) else content
    with weft.spawn("run", *arguments, "--quiet", "--json", stdin=subprocess.PIPE, **more) as process:
        try:
            out, err = process.communicate(content, timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise AssertionError(f"still running after {limit} s")
    code = process.returncode
    return Outcome(128 - code if code < 0 else code, text(out), text(err))


def last(outcome):
    expect(outcome.out, "no events", (), outcome)
    return json.loads(outcome.out.splitlines()[-1])


def rows(count=12):
    for line in table(count).splitlines():
        *values, label = line.split(",")
        yield json.dumps({"x": [float(v) for v in values], "y": int(label)}) + "\n"


GOOD = {"x": [0.1, 0.2, 0.3, 0.4], "y": 1}
ODD = [("no JSON", "x"), ("a list", "[1,2,3,4,0]"), ("a text", '"x"'), ("a number", "7"), ("nothing in it", "{}"), ("too few", '{"x":[1,2,3],"y":0}'),
       ("too many", '{"x":[1,2,3,4,5],"y":0}'), ("NaN", '{"x":[NaN,2,3,4],"y":0}'), ("infinity", '{"x":[1e999,2,3,4],"y":0}'),
       ("more than a float", '{"x":[1e39,2,3,4],"y":0}'), ("null", '{"x":[null,2,3,4],"y":0}'), ("nested", '{"x":[[1],2,3,4],"y":0}'),
       ("a label too large", '{"x":[1,2,3,4],"y":3}'), ("a negative label", '{"x":[1,2,3,4],"y":-1}'), ("half a label", '{"x":[1,2,3,4],"y":0.5}'),
       ("two labels", '{"x":[1,2,3,4],"y":[0,1]}'), ("a key twice", '{"x":[1,2,3,4],"x":[1,2,3,4],"y":0}'), ("another key", '{"x":[1,2,3,4],"y":0,"z":1}'),
       ("deep", '{"x":' + "[" * 2000 + "]" * 2000 + "}"), ("NUL", '{"x":[1,2,3,4],"y":\0}'), ("no UTF-8", b'{"x":[1,2,3,4],"y":"\xff"}'),
       ("an unknown id", '{"id":5,"y":0}'), ("a taught id", '{"id":1,"y":0}'), ("an id that expired", '{"id":0,"y":0}'), ("an id that is open", '{"id":2,"x":[1,2,3,4]}'),
       ("an id of a list", '{"id":[1],"y":0}'), ("an id that is long", '{"id":"' + "i" * 5000 + '","y":0}'), ("forgone and taught", '{"id":2,"forgo":true,"y":0}'),
       ("not forgone", '{"id":2,"forgo":false}')]


@case("a row is refused and named, or passed over:", *ODD)
def odd(weft, folder, _, line):
    net = prepare(folder, learning=LATE)
    line = line if isinstance(line, bytes) else line.encode()
    sample = lambda id: (json.dumps({"id": id, "x": GOOD["x"]}) + "\n").encode()
    before = sample(0) + b"".join(row.encode() for row in rows(8)) + sample(1) + b'{"id":1,"y":2}\n' + sample(2)
    after = b'{"id":2,"y":1}\n' + b"".join(row.encode() for row in rows(3))
    right, first = last(fed(weft, before + after, net, "--data", "-")), last(fed(weft, before, net, "--data", "-"))
    out = fed(weft, before + line + b"\n" + after, net, "--data", "-", "--state", f"{folder}/a")
    expect(out.exit == 3 and "standard input:13:" in out.err, f"exit {out.exit}", (), out)
    kept = last(fed(weft, "", net, "--data", "-", "--state", f"{folder}/a"))
    expect(kept["rows"] == 12 and kept["state_hash"] == first["state_hash"], f"another state: {kept}")
    out = fed(weft, before + line + b"\n" + after, net, "--data", "-", "--bad-rows", "skip", "--state", f"{folder}/b")
    expect(out.exit == 0 and last(out)["skipped_rows"] == 1 and last(out)["state_hash"] == right["state_hash"], "not passed over", (), out)
    expect(weft("replay", f"{folder}/b", "--verify").exit == 0, "not verified")


@case("a pipe that ends inside a line:", ("CSV",), ("JSON",))
def cut(weft, folder, form):
    net = prepare(folder)
    lines = list(rows(4)) if form == "JSON" else [line + "\n" for line in table(4).splitlines()]
    whole, at = "".join(lines), len("".join(lines[:3]))
    first = last(fed(weft, whole[:at], net, "--data", "-"))
    for end in range(at + 1, len(whole) - 1, 3):
        out = fed(weft, whole[:end], net, "--data", "-", "--state", f"{folder}/{end}")
        expect(out.exit == 3 and "standard input:4:" in out.err, f"cut at {end}: exit {out.exit}", (), out)
        kept = last(fed(weft, "", net, "--data", "-", "--state", f"{folder}/{end}"))
        expect(kept["rows"] == 3 and kept["state_hash"] == first["state_hash"], f"cut at {end}: another state")


@case("odd bytes, seed:", *[(seed,) for seed in range(6)])
def noise(weft, folder, seed):
    draw, net = random.Random(seed), prepare(folder)
    good = "".join(rows(40)).encode() if seed % 2 else table(40).encode()
    for _ in range(6):
        bad = bytearray(good)
        for _ in range(draw.randrange(1, 8)):
            bad[draw.randrange(len(bad))] = draw.randrange(256)
        no_crash(fed(weft, bytes(bad), net, "--data", "-"))
        no_crash(fed(weft, bytes(bad), net, "--data", "-", "--bad-rows", "skip"))


@case("a line without an end takes bounded memory:", ("JSON", '{"x":['), ("CSV", "1,2,3,4,0\n1,2,"), ("quote", '1,2,3,4,0\n"'))
def endless(weft, folder, _, begin):
    out = fed(weft, begin + "1" * (100 << 20), prepare(folder), "--data", "-", "--bad-rows", "skip",
              before=None if weft.is_sanitized() else lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)))
    expect(out.exit == 3 and "standard input" in out.err, f"exit {out.exit}", (), out)
