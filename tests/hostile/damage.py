# SPDX-License-Identifier: Apache-2.0
"""Flipped, cut, doubled and deleted bytes of model files, checkpoints and data directories: refused with words, or the very same
bits."""
import os, random, shutil
from harness import *


def changed(data, draw):
    at = draw.randrange(len(data))
    return draw.choice([data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1:], data[:at],
                        data + data[at:], data[:at] + data[at + 1:], b"\0" * len(data),
                        data[:at] + b"\0" * (len(data) - at)])


@case("entity files, seed:", *[(seed, packed) for seed in range(6) for packed in (False, True)])
def entities(weft, folder, seed, packed):
    path = entity(weft, folder)
    if packed:
        expect(weft("pack", path, "-o", f"{folder}/p.entity").exit == 0, "not packed")
        path = f"{folder}/p.entity"
    good = read(path)
    right = weft("hash", path).out
    draw = random.Random(f"{seed} {packed}")
    for n in range(8):
        bad = write(f"{folder}/bad.entity", changed(good, draw))
        verb = draw.choice(["hash", "inspect", "run", "sweep --seconds 0.001"]).split()
        out = weft(verb[0], bad, *verb[1:])
        expect(out.exit in (0, 3), f"exit {out.exit}", (verb, n), out)
        if verb == ["hash"] and out.exit == 0:
            expect(out.out == right, "other bits were taken", (n,), out)
        expect(out.exit == 0 or "bad.entity" in out.err, "not named", (verb, n), out)


def parts(directory):
    return sorted(os.path.join(base, name) for base, _, names in os.walk(directory) for name in names if name not in ("lock", "top.path"))


@case("damaged data directories, seed:", *[(seed,) for seed in range(16)])
def directories(weft, folder, seed):
    net, directory = prepare(folder), f"{folder}/agent"
    arguments = ("run", net, "--epochs", 40, "--checkpoint-every", 300)
    right = state_hash(weft("run", net, "--epochs", 40))
    expect(weft(*arguments, "--state", directory).exit == 0, "no data directory")
    draw = random.Random(seed)
    for n in range(3):
        copy = f"{folder}/copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(directory, copy)
        path = draw.choice(parts(copy))
        if draw.random() < 0.2 or not os.path.getsize(path):
            os.unlink(path)
        else:
            write(path, changed(read(path), draw))
        where = os.path.relpath(path, copy)
        verified, run = weft("replay", copy, "--verify"), weft(*arguments, "--state", copy)
        for out in (verified, run):
            expect(out.exit in (0, 3), f"exit {out.exit}", (where, n), out)
            expect(out.exit == 0 or "weft: error: " + copy in out.err, "the data directory is not named", (where, n), out)
        if run.exit == 3:
            expect(verified.exit == 3, "verify accepts what run refuses", (where, n), run)
        else:
            expect(state_hash(run) == right, "another state hash", (where, n), run)
        if run.exit == 3 and "salvage" in run.err:
            salvaged = weft(*arguments, "--state", copy, "--salvage")
            expect(salvaged.exit == 0 and state_hash(salvaged) == right, "not salvaged", (where, n), salvaged)


@case("a journal is deleted, emptied, cut at a record:", ("deleted",), ("emptied",), ("cut",))
def journal(weft, folder, how):
    net, directory = prepare(folder), f"{folder}/agent"
    arguments = ("run", net, "--epochs", 40, "--state", directory)
    expect(weft(*arguments).exit == 0, "no data directory")
    # The end's checkpoint goes, so that the journal alone knows how it ended.
    checkpoints = sorted((n for n in os.listdir(directory) if n.startswith("ckpt-")), key=lambda n: [int(part) for part in n[5:].split("-")])
    shutil.rmtree(f"{directory}/{checkpoints[-1]}")
    expect(weft("replay", directory, "--verify").exit == 0, "not whole before")
    for name in os.listdir(f"{directory}/journal"):
        path = f"{directory}/journal/{name}"
        if not name.startswith("journal-"):
            continue
        bytes = read(path)
        os.unlink(path) if how == "deleted" else write(path, b"" if how == "emptied" else bytes[:len(bytes) // 2])
    verified, run = weft("replay", directory, "--verify"), weft(*arguments)
    expect(run.exit == 3 and "had been acknowledged" in run.err, "run goes on", (how,), run)
    expect(verified.exit == 3, "verify says all is well", (how,), verified)
    if how != "cut":
        expect("had been acknowledged" in verified.err, "not named", (how,), verified)
        expect("compared    nothing" in verified.out and "equal" not in verified.out, "equal to what?", (how,), verified)


@case("checkpoints and --resume, seed:", *[(seed,) for seed in range(4)])
def checkpoints(weft, folder, seed):
    net, place = prepare(folder), f"{folder}/c"
    arguments = ("run", net, "--epochs", 20, "--checkpoint", place, "--checkpoint-every", 200)
    right = state_hash(weft(*arguments))
    draw = random.Random(seed)
    for path in draw.sample(parts(place), min(3, len(parts(place)))):
        good = read(path)
        if good:
            write(path, changed(good, draw))
            out = weft(*arguments, "--resume")
            expect(out.exit in (0, 3), f"exit {out.exit}", (path,), out)
            expect(out.exit == 3 or state_hash(out) == right, "another state hash", (path,), out)
            write(path, good)


@case("session files, seed:", *[(seed,) for seed in range(4)])
def sessions(weft, folder, seed):
    model, file = entity(weft, folder), f"{folder}/s"
    expect(weft("session", "detach", model, "--session", 0, "-o", file).exit == 0, "not detached")
    good, draw = read(file), random.Random(seed)
    for n in range(6):
        write(file, changed(good, draw))
        out = weft("session", "attach", model, file, "-o", f"{folder}/out.entity")
        expect(out.exit in (0, 3), f"exit {out.exit}", (n,), out)


@case("parts of a data directory that may not be read or written, as a user, mode:", *[(m,) for m in (0o000, 0o200, 0o400, 0o444, 0o500)])
def modes(weft, folder, mode):
    net, directory = prepare(folder), f"{folder}/agent"
    user = other_user(folder)
    os.mkdir(directory), os.chown(directory, user, user)
    arguments = ("run", net, "--epochs", 20, "--state", directory)
    right = state_hash(weft("run", net, "--epochs", 20))
    expect(weft(*arguments, user=user).exit == 0, "no data directory")
    for path in [directory, f"{directory}/journal", f"{directory}/lock"] + parts(directory)[:3]:
        before = os.stat(path).st_mode & 0o777
        os.chmod(path, mode)
        out = weft(*arguments, user=user)
        expect(out.exit in (0, 3, 5), f"exit {out.exit}", (path,), out)
        expect(out.exit == 0 or directory in out.err, "not named", (path,), out)
        os.chmod(path, before)
    again = weft(*arguments, user=user)
    expect(again.exit == 0 and state_hash(again) == right, "another state hash", (), again)
