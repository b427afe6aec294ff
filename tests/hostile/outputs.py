# SPDX-License-Identifier: Apache-2.0
"""Outputs that name an input, each other, a link, a device or a place where nothing can be written: refused,
untouched."""
import json, os, resource, shutil, socket, stat, subprocess
from harness import *

SAVE, LOG, OUT = "--save", "--log", "-o"


def untouched(folder, action):
    def snapshot():
        return {name: (os.readlink(p) if os.path.islink(p) else read(p) if os.path.isfile(p) else os.lstat(p).st_mode)
                for name in sorted(os.listdir(folder)) for p in [f"{folder}/{name}"]}

    before = snapshot()
    action()
    after = snapshot()
    expect(before == after, f"changed: {[k for k in before.keys() | after.keys() if before.get(k) != after.get(k)]}")


@case("run: an output that is an input:",
      *[(f"{flag} {target}", flag, target) for flag in (SAVE, LOG, "--socket", "--state", "--checkpoint")
        for target in ("n.json", "g.csv", "./g.csv", "hard.csv", "sub/../n.json")])
def run_input(weft, folder, _, flag, target):
    net = prepare(folder)
    os.mkdir(f"{folder}/sub")
    os.link(f"{folder}/g.csv", f"{folder}/hard.csv")
    same = "g.csv" if target.endswith(".csv") else "n.json"
    untouched(folder, lambda: weft.refuses(2, [target, same], "run", net, flag, f"{folder}/{target}"))


@case("run: --data that is an output:", (SAVE,), (LOG,))
def run_data(weft, folder, flag):
    net, other = prepare(folder), write(f"{folder}/d.csv", table(seed=2))
    untouched(folder, lambda: weft.refuses(2, ["d.csv", "--data"], "run", net, "--data", other, flag, other))


@case("run: two outputs that are one:", (SAVE, LOG), (SAVE, "--socket"), (LOG, "--socket"), (SAVE, "--state"))
def run_twice(weft, folder, one, other):
    net = prepare(folder)
    untouched(folder, lambda: weft.refuses(2, [one, other], "run", net, one, f"{folder}/x", other, f"{folder}/x"))


@case("morph, pack, session: an output that is an input:", ("morph m.entity --dtype int8",), ("pack m.entity",),
      ("session detach m.entity --session 0",))
def rewrite(weft, folder, line):
    entity(weft, folder)
    words = [f"{folder}/{w}" if w.endswith(".entity") else w for w in line.split()]
    for target in ("m.entity", "g.csv"):
        untouched(folder, lambda: weft.refuses(2, target, *words, OUT, f"{folder}/{target}"))


@case("a link, a directory, a pipe, a device, a socket in the output's place:",
      *[(f"{flag} {kind}", flag, kind) for flag in (SAVE, OUT) for kind in
        ("link", "dangling", "folder", "fifo", "null", "full", "stdout", "/proc/self/fd/1", "socket")])
def place(weft, folder, _, flag, kind):
    model = entity(weft, folder)
    path = kind if kind.startswith("/") else f"{folder}/{kind}"
    os.symlink("/proc/self/fd/1", f"{folder}/stdout")  # what /dev/stdout is; a test must not risk the real one
    if kind in ("null", "full"):  # copies of the devices, for the same reason
        as_root()
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3 if kind == "null" else 7))
        except PermissionError:
            raise Skip("no devices can be made here")
    write(f"{folder}/victim", "mine")
    os.symlink("victim", f"{folder}/link"), os.symlink("none", f"{folder}/dangling"), os.mkdir(f"{folder}/folder")
    os.mkfifo(f"{folder}/fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/socket")
        verb = ["run", f"{folder}/n.json"] if flag == SAVE else ["pack", model]
        mode = os.lstat(path).st_mode
        with open(f"{folder}/captured", "wb") as out:  # as `weft ... > file`, where /dev/stdout is that file
            untouched(folder, lambda: expect(weft(*verb, flag, path, stdout=out).exit == 5, "not refused", (flag, path)))
        expect(os.lstat(path).st_mode == mode, f"{path} is another thing now")
        weft.refuses(5, path, *verb, flag, path)


@case("a target that cannot be written is found before the run:", ("directory",), ("long name",), ("protected",), ("missing",))
def writable(weft, folder, what):
    net = prepare(folder)
    os.mkdir(f"{folder}/d")
    path = f"{folder}/d/m.entity"
    user = None
    if what == "directory":
        user = other_user(folder)
    elif what == "protected":
        user = other_user(folder)
        os.chmod(f"{folder}/d", 0o777), os.chmod(write(path, "mine"), 0o444)
    elif what == "long name":
        path = f"{folder}/d/" + "x" * 250
    else:
        path = f"{folder}/none/m.entity"
    # Endless, so that only a refusal before the work ends it in time.
    weft.refuses(5, os.path.dirname(path) if what == "missing" else path, "run", net, "--epochs", 1 << 30, SAVE, path, user=user,
                 limit=15)


@case("more layers than a file's header describes are found before the run:", (SAVE,), ("--checkpoint",))
def layers(weft, folder, flag):
    # Each layer is written out with its four sources: 20,000 times 1 KB, where 16 MiB are read back.
    names = [letter * 250 for letter in "abcd"]
    spec = {"weft": 2, "grid": {"y": 20, "x": 1000}, "inputs": {name: [1] for name in names},
            "layers": [{"repeat": {}, "type": "dense", "out": 2, "from": names}], "outputs": {"y": [0, 0, 0, 0]},
            "learning": {"rule": "backprop", "horizon": 1}, "stream": {"csv": "g.csv", "input": names[0], "output": "y"}}
    write(f"{folder}/g.csv", "0.5,0\n0.25,1\n" * 10)
    net, path = write(f"{folder}/n.json", json.dumps(spec)), f"{folder}/out"
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    # Hundreds of hours of work, so that only a refusal before it ends it in time.
    weft.refuses(3, [path, flag, "20,000 layers", "16777216"], "run", net, "--epochs", 1 << 20, "--threads", 1, flag, path, limit=120,
                 before=None if weft.is_sanitized() else limit)
    expect(not os.path.isfile(path) and leftovers(folder) == [], "something was left behind")


@case("a file system that takes no files is found before the run:", ("/sys",), ("/proc",))
def read_only(weft, folder, place):
    as_root()
    path = f"{place}/m.entity"
    expect(os.path.isdir(place) and not os.path.exists(path), f"no {place} to try it on")
    weft.refuses(5, path, "run", prepare(folder), "--epochs", 1 << 30, SAVE, path, limit=15)


@case("a log that is somebody's file:", ("thesis.tex",), ("folder",), ("fifo",))
def log(weft, folder, name):
    net = prepare(folder)
    write(f"{folder}/thesis.tex", "\\documentclass{book}\n"), os.mkdir(f"{folder}/folder"), os.mkfifo(f"{folder}/fifo")
    if name == "fifo":  # nobody reads it: no wait
        out = weft("run", net, LOG, f"{folder}/fifo")
        expect(out.exit == 0 and "fifo" in out.err, "not told", (), out)
    else:
        untouched(folder, lambda: weft.refuses(5, name, "run", net, LOG, f"{folder}/{name}"))


@case("a log is written to its end")
def log_appends(weft, folder):
    net = prepare(folder)
    for _ in range(2):
        expect(weft("run", net, LOG, f"{folder}/w.log").exit == 0, "no run")
    expect(read(f"{folder}/w.log").count(b"weft[") >= 4, "lines are missing")
    expect(weft("run", net, LOG, "/dev/null").exit == 0, "/dev/null is a fine log")


def tree(folder):
    return {path: read(path) if os.path.isfile(path) else None
            for path in (f"{at}/{name}" for at, folders, files in os.walk(folder) for name in folders + files)}


@case("a directory of somebody else's files:",
      *[(f"{flag} {name}", flag, name) for flag in ("--state", "--checkpoint", "--resume --checkpoint")
        for name in ("mythesis.txt", ".git", "n.json", "ckpt-1000/model.pt", "ckpt-9.tmp/thesis", "ckpt-5-6/x", "checkpoint-5/x")])
def directory(weft, folder, _, flags, name):
    net = prepare(folder)
    place = folder if name == "n.json" else f"{folder}/d"
    os.makedirs(os.path.dirname(f"{place}/{name}"), exist_ok=True)
    write(f"{place}/{name}", read(f"{place}/{name}") if name == "n.json" else "mine")
    before = tree(place)
    weft.refuses(2, [place, name.split("/")[0] if "/" in name else ""], "run", net, *flags.split(), place)
    expect(tree(place) == before, "changed")


@case("a checkpoint of another program beside ours stays")
def beside(weft, folder):
    at, run = f"{folder}/d", ["run", prepare(folder), "--epochs", 9, "--checkpoint-every", 100]
    expect(weft(*run, "--checkpoint", at).exit == 0, "no run")
    newest = max((name for name in os.listdir(at) if name.startswith("ckpt-")), key=lambda name: int(name[5:]))
    shutil.rmtree(f"{at}/{newest}")
    os.mkdir(f"{at}/ckpt-7")
    write(f"{at}/ckpt-7/model.pt", "mine")
    out = weft(*run, "--checkpoint", at, "--resume")
    expect(out.exit == 0 and newest in os.listdir(at), "not gone on with", (), out)
    expect(os.path.exists(f"{at}/ckpt-7/model.pt"), "gone", (), out)


@case("--state in a directory that is empty, or has logs")
def directory_with_log(weft, folder):
    net = prepare(folder)
    os.mkdir(f"{folder}/d")
    for _ in range(2):
        out = weft("run", net, "--state", f"{folder}/d", LOG, f"{folder}/d/run.log")
        expect(out.exit == 0, "refused", (), out)


@case("links in a data directory's place stay links:", ("lock",), ("top.path",), ("journal",), ("directory",))
def directory_links(weft, folder, name):
    net, directory = prepare(folder), f"{folder}/agent"
    victim = write(f"{folder}/victim", "mine")
    if name == "directory":
        os.mkdir(f"{folder}/real"), os.symlink("real", directory)
        expect(weft("run", net, "--state", directory).exit == 0 and os.path.islink(directory), "a link to a data directory is refused or replaced")
        return
    os.mkdir(directory), os.symlink(victim, f"{directory}/{name}")
    out = weft("run", net, "--state", directory)
    expect(out.exit in (0, 5), f"exit {out.exit}", (), out)
    expect(read(victim) == b"mine", "the victim was written to", (), out)


@case("six saves to one name: one of them is there, whole")
def race(weft, folder):
    net = prepare(folder)
    running = [weft.spawn("run", net, "--seed", seed, SAVE, f"{folder}/m.entity") for seed in range(6)]
    expect([p.communicate() and p.returncode for p in running] == [0] * 6, "a run failed")
    expect(weft("hash", f"{folder}/m.entity").exit == 0 and leftovers(folder) == [], "not whole")


@case("a data directory is its owner's alone, umask:", (0o022,), (0o077,), (0o000,))
def private(weft, folder, umask):
    directory = f"{folder}/agent"
    out = weft("run", prepare(folder), "--state", directory, before=lambda: os.umask(umask))
    expect(out.exit == 0, "not run", (), out)
    for path, _, _ in os.walk(directory):
        expect(os.lstat(path).st_mode & 0o777 == 0o700, f"{path}: {oct(os.lstat(path).st_mode)}")
