# SPDX-License-Identifier: Apache-2.0
"""ulimit: file sizes, descriptors, memory, stack, processes. An error in words, nothing lost, no temporary left
behind."""
import collections, json, os, resource, signal, subprocess
from harness import *

KIB = 1024


def limited(what, soft):
    return lambda: resource.setrlimit(what, (soft, resource.getrlimit(what)[1]))


@case("a limit on file sizes is an error of --save, bytes:", (0,), (1,), (512,), (2 * KIB,))
def file_size_save(weft, folder, size):
    net = prepare(folder)
    # A first model that must stay as it is.
    first = weft("run", net, "--quiet", "--save", f"{folder}/m.entity")
    before = read(f"{folder}/m.entity")
    out = weft("run", net, "--epochs", 3, "--save", f"{folder}/m.entity", before=limited(resource.RLIMIT_FSIZE, size))
    expect(first.exit == 0 and out.exit == 5, f"exit {out.exit}", (), out)
    expect("m.entity" in out.err and "too large" in out.err.lower(), "not in words", (), out)
    expect("state hash" in out.out, "the result is lost", (), out)
    expect(read(f"{folder}/m.entity") == before, "the old model is gone")
    expect(leftovers(folder) == [], f"left behind: {leftovers(folder)}")


@case("an agent survives a limit on file sizes, bytes:", (0,), (1 * KIB,), (3 * KIB,), (20 * KIB,), (64 * KIB,))
def file_size_directory(weft, folder, size):
    net, directory = prepare(folder), f"{folder}/agent"
    arguments = ("run", net, "--epochs", 200, "--state", directory)
    out = weft(*arguments, before=limited(resource.RLIMIT_FSIZE, size))
    # Nothing can be kept within a block or less; more is enough for the first files.
    expect(out.exit == 5 if size < KIB * 3 else out.exit in (0, 5), f"exit {out.exit}", arguments, out)
    expect(out.exit == 0 or "weft: error: " in out.err, "no word", arguments, out)
    again = weft(*arguments)
    expect(again.exit == 0 and state_hash(again) == state_hash(weft(*arguments[:4])), "another state hash", arguments, again)
    expect(leftovers(folder) == [], f"left behind: {leftovers(folder)}")


@case("few descriptors:", *[(n,) for n in (3, 4, 5, 6, 8, 10, 12, 16)])
def descriptors(weft, folder, count):
    net = prepare(folder)
    for arguments in (("hash", net), ("run", net, "--state", f"{folder}/agent")):
        out = weft(*arguments, before=limited(resource.RLIMIT_NOFILE, count))
        if count > 3 or out.exit != 127:  # the loader needs one itself, before any code of ours
            no_crash(out, arguments)
        if count >= 12:
            expect(out.exit == 0, "these are enough", arguments, out)
    expect(weft("run", net, "--state", f"{folder}/agent").exit == 0, "the data directory is damaged")


@case("little address space, MiB:", *[(n,) for n in (64, 100, 200, 400, 1000)])
def memory(weft, folder, mebibytes):
    out = weft("run", prepare(folder), "--threads", 1, before=limited(resource.RLIMIT_AS, mebibytes << 20))
    # Below some 50 MiB the loader fails, before any code of ours; sanitizers end a program that gets no memory.
    expect(out.exit in (0, 1, 3, 127) or weft.is_sanitized(), f"exit {out.exit}", (), out)
    expect(out.exit == 0 or out.err, "no word", (), out)
    if mebibytes >= 400 and not weft.is_sanitized():
        expect(out.exit == 0, "this is enough", (), out)


def deep(folder, cells):
    write(f"{folder}/g.csv", table())
    layers = [{"type": "dense", "out": 3, "activation": "tanh"}] * cells
    return write(f"{folder}/deep.json", json.dumps({"weft": 2, "inputs": {"x": [4]}, "chain": layers, "stream": {"csv": "g.csv"}}))


def loaded(weft):
    """KiB of address space from which on code of ours runs: with less, the loader or libstdc++ ends the process."""
    few, enough = 1 * KIB, 512 * KIB
    while enough - few > 32:
        middle = (few + enough) // 2
        few, enough = (few, middle) if weft("--version", before=limited(resource.RLIMIT_AS, middle * KIB)).exit == 0 else (middle, enough)
    return enough


# Memory ends in every part of the work in turn: while the network is read, built, placed, while learning is planned,
# taken back, run and saved. Each end is an error in words.
@case("address space that ends anywhere, of a chain of 1,500 layers:",
      *[(verb,) for verb in ("run N --max-samples 1 --held-out 0 --quiet --threads 1", "run N --max-samples 1 --held-out 0 --quiet --threads 2 --state {to}",
                             "run N --max-samples 1 --held-out 0 --quiet --threads 1 --save {to}", "hash N", "inspect N --json")])
def memory_ends(weft, folder, line):
    if weft.is_sanitized():
        return  # their shadow takes all of the address space
    net, ends, least = deep(folder, 1500), collections.Counter(), loaded(weft)

    def end(kibibytes):
        words = [net if word == "N" else word.format(to=f"{folder}/{kibibytes}") for word in line.split()]
        out = weft(*words, before=limited(resource.RLIMIT_AS, kibibytes * KIB))
        expect(out.exit in (0, 1, 3, 5), f"exit {out.exit} of {kibibytes} KiB", words, out)
        expect(out.exit == 0 or out.err.splitlines()[-1].startswith("weft: error: "), f"no word of {kibibytes} KiB", words, out)
        ends[out.exit] += 1
        return out.exit

    enough = max(24 * KIB, least)
    while end(enough) != 0:
        enough += enough // 4
    for part in range(20):
        end(max(least, enough - enough * part // 5 // 20))
    expect(ends[3] > 1, f"nothing was missing: {dict(ends)}", (line,))


@case("no processes left: the message has a noun, threads:", (2,), (8,))
def threads(weft, folder, count):
    net = prepare(folder)
    user = other_user(folder)
    out = weft("run", net, "--threads", count, user=user, before=limited(resource.RLIMIT_NPROC, 1))
    expect(out.exit == 1, f"exit {out.exit}", (), out)
    expect("thread" in out.err, "no noun", (), out)


@case("a small stack, KiB:", (256,), (1024,))
def stack(weft, folder, kibibytes):
    out = weft("run", prepare(folder), before=limited(resource.RLIMIT_STACK, kibibytes * KIB))
    no_crash(out)
    expect(out.exit == 0 or weft.is_sanitized(), "this is enough", (), out)


@case("a limit on file sizes names the file that was asked for:", ("pack {m} -o {o}",), ("morph {m} --dtype int8 -o {o}",),
      ("session detach {m} --session 0 -o {o}",), ("new --in 4 --out 3 -o {o}",))
def file_size_outputs(weft, folder, line):
    model, output = entity(weft, folder), f"{folder}/o.out"
    arguments = line.format(m=model, o=output).split()
    out = weft.refuses(5, [f"{output}: ", "too large"], *arguments, before=limited(resource.RLIMIT_FSIZE, 0))
    expect(".tmp" not in out.err, "a name that nobody gave", arguments, out)
    expect(not os.path.exists(output) and leftovers(folder) == [], "something was left", arguments, out)
