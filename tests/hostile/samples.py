# SPDX-License-Identifier: Apache-2.0
"""Samples from several files: IDX with labels beside them, files to validate and test with, models compared with tables,
streams that follow one another. A word that names the file, and nothing of it learned."""
import gzip, json, math, os, struct
from harness import *

BYTES, SIGNED, SHORTS, FLOATS, DOUBLES = 8, 9, 11, 13, 14


def idx(kind, sizes, content):
    return struct.pack(">HBB", 0, kind, len(sizes)) + b"".join(struct.pack(">I", n) for n in sizes) + content


IMAGES, LABELS = idx(BYTES, [6, 2, 2], bytes(range(24))), idx(BYTES, [6], bytes([0, 1, 2, 0, 1, 2]))


def place(folder, images=IMAGES, labels=LABELS):
    """N, and samples for it; the path of these."""
    prepare(folder)
    if labels is not None:
        write(f"{folder}/t-labels.idx", labels)
    return write(f"{folder}/t-images.idx", images)


@case("IDX as it should be")
def sound(weft, folder):
    path = place(folder)
    right = state_hash(weft("run", f"{folder}/n.json", "--data", path, "--held-out", 0))
    for name in ("images", "labels"):
        write(f"{folder}/z-{name}.gz", gzip.compress(read(f"{folder}/t-{name}.idx"), mtime=0))
    expect(state_hash(weft("run", f"{folder}/n.json", "--data", f"{folder}/z-images.gz", "--held-out", 0)) == right, "packed ones are others")
    for kind, form in ((SHORTS, ">24h"), (FLOATS, ">24f"), (DOUBLES, ">24d")):
        write(path, idx(kind, [6, 4], struct.pack(form, *range(24))))
        expect(state_hash(weft("run", f"{folder}/n.json", "--data", path, "--held-out", 0)) == right, f"type {kind} gives others")


@case("IDX samples:", ("cut short", IMAGES[:-1], "cut short"), ("cut in its sizes", IMAGES[:9], "cut short"), ("too long", IMAGES + b"x", "sizes say"),
      ("an axis of nothing", idx(BYTES, [6, 0, 4], b""), "axis 2"), ("sizes that overflow", idx(BYTES, [2**32 - 1] * 8, b""), "more than"),
      ("a huge claim", idx(BYTES, [2**28], b""), "cut short"), ("no number", idx(FLOATS, [6, 4], struct.pack(">24f", *[math.nan] * 24)), "nan"),
      ("more than a float holds", idx(DOUBLES, [6, 4], struct.pack(">24d", *[1e300] * 24)), "inf"), ("another width", idx(BYTES, [6, 3], bytes(18)), "3 values a sample"))
def idx_samples(weft, folder, _, images, words):
    path = place(folder, images)
    out = weft.refuses(3, [path, words], "run", f"{folder}/n.json", "--data", path)
    expect("n.json: " not in out.err, "the network is blamed", (), out)


@case("IDX labels:", ("none", None, "t-labels.idx"), ("too few", idx(BYTES, [5], bytes(5)), "6 samples"), ("two axes", idx(BYTES, [6, 2], bytes(12)), "2 values"),
      ("below 0", idx(SIGNED, [6], b"\0\1\2\0\1\xff"), "label 5"), ("beyond the output", idx(BYTES, [6], bytes([0, 1, 2, 0, 1, 3])), "label 5"),
      ("halves", idx(FLOATS, [6], struct.pack(">6f", 0, 1, 2, 0, 1, 0.5)), "label 5"), ("not numbers", idx(FLOATS, [6], struct.pack(">6f", 0, 1, 2, 0, 1, math.nan)), "label 5"),
      ("text", b"0\n1\n2\n0\n1\n2\n", "IDX"), ("nothing", b"", "IDX"))
def idx_labels(weft, folder, _, labels, words):
    path = place(folder, labels=labels)
    out = weft.refuses(3, ["t-labels.idx", words], "run", f"{folder}/n.json", "--data", path)
    expect("n.json: " not in out.err, "the network is blamed", (), out)
    weft.refuses(3, ["t-labels.idx", words], "new", "--from", path, "--out", 3, "-o", f"{folder}/o")


@case("IDX labels that are no file:", ("folder",), ("fifo",), ("zero",))
def odd_labels(weft, folder, kind):
    path = place(folder, labels=None)
    labels = f"{folder}/t-labels.idx"
    if kind == "folder":
        os.mkdir(labels)
    elif kind == "fifo":
        os.mkfifo(labels)
    else:
        os.symlink("/dev/zero", labels)
    out = weft("run", f"{folder}/n.json", "--data", path, limit=10)
    expect(out.exit in (3, 5) and "t-labels.idx" in out.err and out.out == "", "not refused", (kind,), out)


@case("a file to measure with:", *[(f"{flag} {what}", flag, content, words) for flag in ("--validation", "--test") for what, content, words in (
    ("empty", "", "no rows"), ("narrow", "1,2,0\n", "2 values a sample"), ("of other classes", "1,2,3,4,7\n", "7"), ("of words", "a,2,3,4,0\n", "not a number"),
    ("without labels", "1,2,3,4\n", "is no class of the model"), ("gone", None, "cannot open"), ("a network", json.dumps(network()), "JSON"))])
def measured(weft, folder, _, flag, content, words):
    net, path = prepare(folder), f"{folder}/v.csv"
    if content is not None:
        write(path, content)
    weft.refuses(3, [path, words], "run", net, flag, path, "--save", f"{folder}/m.entity")
    expect(not os.path.exists(f"{folder}/m.entity"), "saved nevertheless")


@case("a file to measure with that is an output or no file:", ("--validation",), ("--test",))
def measured_output(weft, folder, flag):
    net, path = prepare(folder), write(f"{folder}/v.csv", table(seed=3))
    for output in ("--save", "--log", "--state", "--checkpoint", "--socket"):
        weft.refuses(2, [path, flag], "run", net, flag, path, output, path)
    expect(read(path) == table(seed=3).encode(), "written over")
    os.mkfifo(f"{folder}/fifo")
    for odd in ("fifo", "."):
        out = weft("run", net, flag, f"{folder}/{odd}", limit=10)
        expect(out.exit in (3, 5) and out.err.count("\n") == 1, "not refused", (odd,), out)


@case("files to measure with are no samples to learn from")
def not_learned(weft, folder):
    net = prepare(folder)
    write(f"{folder}/v.csv", table(seed=3)), write(f"{folder}/w.csv", table(seed=4))
    alone = weft("run", net, "--held-out", 0)
    for flag in ("--validation", "--test"):
        with_one = weft("run", net, "--held-out", 0, flag, f"{folder}/v.csv")
        with_other = weft("run", net, "--held-out", 0, flag, f"{folder}/w.csv")
        expect(state_hash(with_one) == state_hash(with_other) == state_hash(alone), "learned from", (flag,), with_one)


@case("eval:", ("no rows", "", "no rows"), ("no labels", "1,2,3,4\n", "3 values a sample"), ("a label of no class", "1,2,3,4,red\n", '"red" is none'),
      ("a label that is missing", "1,2,3,4,\n", "no label"), ("a row cut short", "1,2,3,4,0\n1,2\n", "2 fields"), ("control characters", "1,2,3,4,\x1b[2J\n", "\\x1b[2J"))
def evaluated(weft, folder, _, content, words):
    model, path = entity(weft, folder), write(f"{folder}/e.csv", content)
    weft.refuses(3, [path, words], "eval", model, "--data", path)
    weft.refuses(3, ["standard input", words], "eval", model, "--data", "-", stdin=open(path))


@case("eval and predict count the same")
def same_counts(weft, folder):
    model = entity(weft, folder)
    told = json.loads(weft("eval", model, "--data", f"{folder}/g.csv", "--json").out)
    answers = weft("predict", model, "--data", f"{folder}/g.csv").out.split()[1:]
    labels = [line.rpartition(",")[2] for line in table().split()]
    right = sum(answer == label for answer, label in zip(answers, labels))
    expect(len(answers) == len(labels) == told["samples"] and math.isclose(told["accuracy"], right / len(labels)), "another count", (), told)


@case("one head is as good as many:", ("stratified", {"stratified": True}), ("drift", {"drift": {"kind": "labels", "at": 0.5, "share": 1}}))
def one_head(weft, folder, _, changes):
    stream = {"csv": "g.csv", "input": "x", "output": "y"} | changes
    net = prepare(folder, learning={"loss": "multi_head_cross_entropy", "heads": [3], "optimizer": {"lr": 0.05}}, stream=stream)
    out = weft("run", net)
    expect(out.exit == 0 and state_hash(out), "not learned", (), out)


@case("labels beside samples are nobody's output:", ("pack n.json -o",))
def kept_labels(weft, folder, line):
    place(folder)
    write(f"{folder}/n.json", json.dumps(json.loads(open(f"{folder}/n.json").read()) | {"stream": {"csv": "t-images.idx"}}))
    verb, _, flag = line.split()
    out = weft(verb, f"{folder}/n.json", flag, f"{folder}/t-labels.idx")
    expect(out.exit == 2 and "is the file that is read" in out.err, "written over", line, out)
    expect(open(f"{folder}/t-labels.idx", "rb").read() == LABELS, "not left alone", line, out)
