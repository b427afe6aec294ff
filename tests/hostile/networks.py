# SPDX-License-Identifier: Apache-2.0
"""Network files by hand: refused in words that name the place, quickly and in little memory, whatever they hold."""
import copy, os, random, resource
from harness import *

VERBS = ("hash", "inspect", "run")
GIB = 1 << 30


def small():
    resource.setrlimit(resource.RLIMIT_AS, (3 * GIB, 3 * GIB))


def with_change(path, value):
    spec = network()
    place = spec
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(spec)


TEXTS = [("nothing", ""), ("a brace", "{"), ("deep arrays", "[" * 10), ("100,000 arrays", "[" * 100000), ("deep objects", '{"a":' * 100000),
         ("10 MB of brackets", "[" * 10_000_000), ("nested in place", json.dumps(network())[:-1] + ',"z":' + "[" * 1000 + "]" * 1000 + "}"),
         ("a BOM", "\ufeff" + json.dumps(network())), ("UTF-16", json.dumps(network()).encode("utf-16")), ("NUL", json.dumps(network())[:50] + "\0"),
         ("no UTF-8", json.dumps(network()).encode().replace(b'"n"', b'"\xff\xfe"')), ("twice", json.dumps(network())[:-1] + ',"weft": 2}'),
         ("trailing", json.dumps(network()) + "x"), ("an array", "[]"), ("NaN", json.dumps(network(seed=float("nan")))), ("1e999", '{"weft": 1e999}')]


@case("no network:", *TEXTS)
def texts(weft, folder, what, content):
    path = write(f"{folder}/n.json", content)
    write(f"{folder}/g.csv", table())
    for verb in VERBS:
        out = weft(verb, path, before=small, limit=10)
        expect(out.exit == 3 and "n.json" in out.err and out.out == "", "not refused", (verb,), out)


VALUES = [0, -1, 1.5, 2**31, 2**32, 2**53, 2**63, 2**64, 1e30, None, True, "", "x", [], {}, [[]], {"a": 1}]
PLACES = [("grid", "x"), ("layers", 0, "out"), ("layers", 0, "at"), ("layers", 0, "at", 2), ("layers", 0, "type"), ("layers", 0, "activation"),
          ("layers", 0, "from"), ("layers", 1, "from"), ("inputs", "x"), ("inputs", "x", 0), ("outputs", "y"), ("learning", "rule"),
          ("learning", "optimizer", "lr"), ("stream", "csv"), ("stream", "held_out"), ("stream", "epochs"), ("weft",), ("name",)]


FITTING = {"layers/0/at/2": [0], "learning/optimizer/lr": [0, 1.5], "stream/held_out": [0], "name": ["", "x"]}  # all others are refused


@case("a value where another is meant:", *[("/".join(map(str, place)), place) for place in PLACES])
def values(weft, folder, _, place):
    write(f"{folder}/g.csv", table())
    for value in VALUES:
        path = write(f"{folder}/n.json", with_change(place, value))
        out = weft("run", path, "--max-samples", 10, before=small, limit=20)
        no_crash(out, (place, value))
        # True is no number here, although Python has it equal to 1.
        fits = any(type(value) is type(fit) and value == fit for fit in FITTING.get("/".join(map(str, place)), []))
        # An empty file name is the folder.
        exit = 0 if fits else 5 if (place, value) == (("stream", "csv"), "") else 3
        expect(out.exit == exit, f"exit {out.exit}, not {exit}", (place, value), out)


@case("structure-aware changes, seed:", *[(seed,) for seed in range(12)])
def fuzz(weft, folder, seed):
    draw = random.Random(seed)
    write(f"{folder}/g.csv", table())
    for n in range(12):
        spec = network()
        for _ in range(draw.randrange(1, 4)):
            holders = []

            def collect(node):
                for key in list(node.keys() if isinstance(node, dict) else range(len(node))):
                    holders.append((node, key))
                    if isinstance(node[key], (dict, list)):
                        collect(node[key])

            collect(spec)
            node, key = draw.choice(holders)
            how = draw.randrange(4)
            if how == 0:
                node.pop(key)
            elif how == 1:
                node[key] = copy.deepcopy(draw.choice(holders)[0])
            elif how == 2:
                node[key] = draw.choice(VALUES)
            elif isinstance(node, dict):
                node[draw.choice(["type", "units", "from", "at", "share", "dtype", "z"])] = draw.choice(VALUES)
        path = write(f"{folder}/n.json", json.dumps(spec))
        verb = draw.choice(VERBS)
        no_crash(weft(verb, path, *(["--max-samples", 10] if verb == "run" else []), before=small, limit=20), (verb, n))


@case("the word that was meant:", ("layers/0/type", "dnese", "dense"), ("layers/0/activation", "TanH", "tanh"),
      ("layers/0/activation", "rellu", "relu"), ("layers/0/activatoin", "tanh", "activation"),
      ("strem", {}, "stream"), ("learning/rule", "backprob", "backprop"), ("learning/optimizer/mumentum", 0.9, "momentum"))
def meant(weft, folder, place, value, word):
    place = tuple(int(p) if p.isdigit() else p for p in place.split("/"))
    write(f"{folder}/g.csv", table())
    path = write(f"{folder}/n.json", with_change(place, value))
    weft.refuses(3, [f"did you mean '{word}'"], "run", path)


@case("numbers that do not fit are shown:", ("grid/x", 2**32, "4294967296"), ("layers/0/out", 1.0, "1.0"), ("layers/0/out", -3, "-3"))
def shown_numbers(weft, folder, place, value, words):
    place = tuple(int(p) if p.isdigit() else p for p in place.split("/"))
    write(f"{folder}/g.csv", table())
    weft.refuses(3, [".".join(str(p) for p in place).replace(".0.", "[0]."), words], "run", write(f"{folder}/n.json", with_change(place, value)))


@case("what is no file:", ("fifo",), ("/dev/zero",), ("/dev/null",), ("folder",), ("none",), ("dangling",))
def places(weft, folder, what):
    os.mkfifo(f"{folder}/fifo"), os.mkdir(f"{folder}/folder"), os.symlink("none", f"{folder}/dangling")
    path = what if what.startswith("/") else f"{folder}/{what}"
    for verb in VERBS:
        out = weft(verb, path, limit=10)
        expect(out.exit in (3, 5) and path in out.err, "not refused", (verb, path), out)


def layers(sources, width=1):
    """One dense layer a list of sources, in a row."""
    return [{"at": [0, 0, x, 0], "type": "dense", "out": width, "from": from_} for x, from_ in enumerate(sources)]


def plain(spec_layers, inputs, outputs):
    return json.dumps({"weft": 2, "name": "large", "grid": {"z": 1, "y": 1, "x": len(spec_layers)}, "inputs": inputs,
                       "layers": spec_layers, "outputs": outputs})


def ports(count):
    return plain(layers([[f"i{n}" for n in range(count)]]), {f"i{n}": [1] for n in range(count)},
                 {f"o{n}": [0, 0, 0, 0] for n in range(count)})


def chain(length):
    return plain(layers([["x"]] + [[[0, 0, x - 1, 0]] for x in range(1, length)]), {"x": [1]}, {"y": [0, 0, length - 1, 0]})


def ring(length):
    return plain(layers([["x", [0, 0, length - 1, 0]]] + [[[0, 0, x - 1, 0]] for x in range(1, length)]), {"x": [1]},
                 {"y": [0, 0, length - 1, 0]})


@case("inspect takes memory in proportion to the file:", ("50,000 inputs and outputs", ports(50000), 1024),
      ("100,000 cells", chain(100000), 384))
def proportional(weft, folder, _, content, mebibytes):
    path = write(f"{folder}/n.json", content)
    bound = lambda: resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))
    for more in ((), ("--json",)):
        out = weft("inspect", path, *more, before=None if weft.is_sanitized() else bound)
        expect(out.exit == 0 and out.err == "", "not shown", more, out)
        expect(more or len(out.out) < 20000, f"{len(out.out)} characters for a person", more)


@case("inspect counts what it leaves out")
def left_out(weft, folder):
    seen = json.loads(weft("inspect", write(f"{folder}/n.json", ports(2000)), "--json").out)
    expect(len(seen["latency"]) + seen["latency_left_out"] == 2000 * 2000, "pairs are missing")
    expect(seen["latency_by_output"][0] == {"output": "o0", "inputs": 2000, "least": 1, "most": 1, "not_connected": 0},
           "another summary")
    expect([len(seen["inputs"]), len(seen["layers"]), len(seen["layers"][0]["from"])] == [2000, 1, 2000], "not all in JSON")
    text = weft("inspect", write(f"{folder}/r.json", ring(100))).out
    expect("loop of [0,0,0,0] [0,0,1,0] [0,0,2,0] [0,0,3,0] and 96 more\n" in text, "another loop", (), None)
    every = json.loads(weft("inspect", f"{folder}/r.json", "--json").out)
    expect([layer["at"] for layer in every["layers"]] == [[0, 0, x, 0] for x in range(100)], "layers are missing")
    expect(all(layer["in_loop"] for layer in every["layers"]) and len(every["loops"][0]) == 100, "loops are missing")


@case("a table where a network is meant:", ("a table", b"a,b,c\n1,2,x\n"), ("with a mark", b"\xef\xbb\xbfa;b\n1;2\n"),
      ("no names", b"1\t2\n"))
def table_as_network(weft, folder, _, content):
    path = write(f"{folder}/q.csv", content)
    for verb in VERBS:
        weft.refuses(3, [path, "is a table", f"weft new --from {path}"], verb, path)
