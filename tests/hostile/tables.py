# SPDX-License-Identifier: Apache-2.0
"""Tables, plain and packed: cut, flipped, swollen, and of odd texts. A word that names file and row, within bounded
memory."""
import gzip, json, os, random, resource, zlib
from harness import *

TEXTS = [("nothing", ""), ("a header alone", "a,b,c,d,y\n"), ("one column", "1\n2\n"), ("ragged", "1,2,3,4,0\n1,2\n"), ("words", "1,2,x,4,0\n"),
         ("a huge label", "1,2,3,4,99999999999\n"), ("a negative label", "1,2,3,4,-1\n"), ("half a label", "1,2,3,4,0.5\n"),
         ("overflow", "1e999,2,3,4,0\n"), ("nan", "nan,2,3,4,0\n"), ("inf", "inf,2,3,4,0\n"), ("NUL", "1,2,\0,4,0\n"), ("no UTF-8", b"\xff\xfe,2,3,4,0\n"),
         ("a long line", "1," * 1_000_000 + "0\n"), ("a long field", "1" * 1_000_000 + ",2,3,4,0\n"), ("quotes that do not end", '"1,2,3,4,0\n'),
         ("UTF-16", "1,2,3,4,0\n".encode("utf-16")), ("a PNG", b"\x89PNG\r\n\x1a\n" + bytes(100)), ("only commas", ",,,,\n" * 10)]


@case("odd tables:", *TEXTS)
def texts(weft, folder, what, content):
    net = prepare(folder)
    out = weft("run", net, "--data", write(f"{folder}/d.csv", content), limit=10)
    # Whole numbers are names of classes, whatever their size; all else is refused by name.
    exit = 0 if what in ("a huge label", "a negative label") else 3
    expect(out.exit == exit, f"exit {out.exit}, not {exit}", (what,), out)
    expect(exit == 0 or "d.csv" in out.err and out.out == "", "not named", (what,), out)


@case("a table that does not fit is named, and not the key that names another:", ("values", "1,2,0\n3,4,1\n", "d.csv: 2 values a sample; input 'x' takes 4 (network '"),
      ("classes", "1,2,3,4,a\n1,2,3,4,b\n1,2,3,4,c\n1,2,3,4,d\n", 'd.csv: 4 classes ("a", "b", "c", "d"); the network\'s output has 3 values'))
def misfit(weft, folder, _, content, words):
    weft.refuses(3, f"weft: error: {folder}/{words}", "run", prepare(folder), "--data", write(f"{folder}/d.csv", content))


@case("gzip, seed:", *[(seed,) for seed in range(8)])
def packed(weft, folder, seed):
    net, draw = prepare(folder), random.Random(seed)
    good = gzip.compress(table().encode(), mtime=0)
    right = state_hash(weft("run", net, "--data", write(f"{folder}/d.csv.gz", good)))
    for n in range(8):
        at = draw.randrange(len(good))
        bad = good[:at] if n % 2 else good[:at] + bytes([good[at] ^ 1 << draw.randrange(8)]) + good[at + 1:]
        out = weft("run", net, "--data", write(f"{folder}/d.csv.gz", bad))
        expect(out.exit in (0, 3), f"exit {out.exit}", (at,), out)
        # A flipped byte of the header may mean nothing.
        expect(out.exit == 3 and "d.csv.gz" in out.err or state_hash(out) == right, "other data were taken", (at,), out)


@case("gzip that swells, members:", (1,), (64,))
def bomb(weft, folder, members):
    net = prepare(folder)
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    block = b"0" * (1 << 20)
    member = b"".join(packer.compress(block) for _ in range(1200 // members)) + packer.flush()
    out = weft("run", net, "--data", write(f"{folder}/d.csv.gz", member * members), limit=30,
               before=lambda: resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)))
    expect(out.exit == 3 and "d.csv.gz" in out.err, "not refused", (), out)


@case("what is no file:", ("fifo",), ("/dev/zero",), ("folder",), ("none",))
def places(weft, folder, what):
    net = prepare(folder)
    os.mkfifo(f"{folder}/fifo"), os.mkdir(f"{folder}/folder")
    path = what if what.startswith("/") else f"{folder}/{what}"
    out = weft("run", net, "--data", path, limit=10)
    expect(out.exit in (3, 5) and path in out.err, "not refused", (path,), out)


@case("what is no table:", ("JSON", json.dumps(network()), "JSON"), ("a list", " [[1,2]]", "JSON"), ("a model", b"ENTITY\0\0", "model"))
def no_table(weft, folder, _, content, word):
    model, path = entity(weft, folder), write(f"{folder}/iris.json", content)
    for arguments in (("predict", model, "--data", path), ("run", f"{folder}/n.json", "--data", path), ("new", "--from", path, "-o", f"{folder}/o")):
        weft.refuses(3, [path, word, "no table"], *arguments)


@case("the column that was meant:", ("specis", "species"), ("Species", "species"))
def meant_column(weft, folder, given, meant):
    path = write(f"{folder}/t.csv", "long,wide,species\n1,2,a\n2,1,b\n")
    weft.refuses(3, [f"did you mean '{meant}'", "long, wide, species"], "new", "--from", path, "--label", given, "-o", f"{folder}/o")


@case("how a table is to be saved:", ("UTF-16", "a,b,y\n1,2,x\n".encode("utf-16"), "t.csv: is UTF-16"), ("line ends", "a,b,y\r1,2,x\r", "t.csv:1: lines end"),
      ("no separator", "a b y\n1 2 x\n", "Fields are separated by"), ("a remark", "# mine\na,b,y\n1,2,x\n", "Fields are separated by"),
      ("Latin 1", "a,b,y\n1,2,x\n2,1,bl\u00e5\n".encode("latin-1"), 't.csv:3: label "bl\\xe5" is not UTF-8'))
def saving(weft, folder, _, content, words):
    path = write(f"{folder}/t.csv", content)
    weft.refuses(3, words, "new", "--from", path, "-o", f"{folder}/o")
    expect(weft("new", "--in", 2, "--out", 2, "-o", f"{folder}/n.json").exit == 0, "no network")
    weft.refuses(3, words, "run", f"{folder}/n.json", "--data", path, "--save", f"{folder}/m.entity")


@case("a table that surprises is learned, with a note:", ("one class", "a,y\n1,x\n2,x\n4,x\n", "all rows are of one class"),
      ("a heading of numbers", "2019,2020\n1,7\n2,8\n4,7\n5,8\n", "--header present"))
def surprise(weft, folder, _, content, words):
    out = weft("new", "--from", write(f"{folder}/t.csv", content), "-o", f"{folder}/n.json")
    expect(out.exit == 0 and words in out.err, "no note", (), out)
    expect(weft("run", f"{folder}/n.json").exit == 0, "not learned")
