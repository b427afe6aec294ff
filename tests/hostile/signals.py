# SPDX-License-Identifier: Apache-2.0
"""Signals: what ends a run ends it as docs/cli.md says, what does not leaves no trace in its bits; kill -9 loses
nothing."""
import os, signal, time
from harness import *

EPOCHS = 4000


def running(weft, folder, *more):
    process = weft.spawn("run", prepare(folder), "--epochs", 1 << 30, "--json", "--quiet", *more)
    process.stdout.readline()
    return process


def ended(process, within=15):
    try:
        out, err = process.communicate(timeout=within)
    finally:
        process.kill()
    return Outcome(128 - process.returncode if process.returncode < 0 else process.returncode, text(out), text(err))


@case("ends a run:", *[(s.name, s, code) for s, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131),
                                                         (signal.SIGKILL, 137))])
def ends(weft, folder, _, number, code):
    directory = f"{folder}/agent"
    process = running(weft, folder, "--state", directory)
    time.sleep(0.2)
    process.send_signal(number)
    out = ended(process)
    expect(out.exit == code, f"exit {out.exit}", (), out)
    verified = weft("replay", directory, "--verify")
    expect(verified.exit == 0, "not verified", (), verified)


@case("does not end a run:", *[(s.name, s) for s in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGWINCH, signal.SIGURG, signal.SIGCONT)])
def goes_on(weft, folder, _, number):
    process = running(weft, folder)
    for _ in range(5):
        process.send_signal(number), time.sleep(0.02)
    time.sleep(0.1)
    expect(process.poll() is None, "ended")
    process.send_signal(signal.SIGTERM)
    expect(ended(process).exit == 143, "another end")


@case("a sample of a deep network is given up and run again:", ("--state",), ("--checkpoint",))
def deep(weft, folder, keep):
    write(f"{folder}/g.csv", table())
    layers = [{"type": "dense", "out": 3, "activation": "tanh"}] * 2000
    net = write(f"{folder}/deep.json", json.dumps({"weft": 2, "inputs": {"x": [4]}, "chain": layers, "stream": {"csv": "g.csv"}}))
    arguments = ("run", net, "--max-samples", 1, "--held-out", 0, "--quiet", "--json")
    right = json.loads(weft(*arguments).out.splitlines()[-1])["state_hash"]
    kept = (keep, f"{folder}/home") + (("--resume",) if keep == "--checkpoint" else ())
    process = weft.spawn(*arguments, *kept)
    # The sample's 4,000 steps take a second; who waited for its end would say sample 1.
    while '"start"' not in text(process.stdout.readline()):
        pass
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    out = ended(process)
    expect(out.exit == 143 and "stopped by a signal at sample 0" in out.err, f"exit {out.exit}", (), out)
    last = weft(*arguments, *kept)
    expect(json.loads(last.out.splitlines()[-1])["state_hash"] == right, "another state hash", (), last)


@case("stopped and continued: no hang is told")
def stopped(weft, folder):
    process = running(weft, folder, "--hang-limit", 1, "--on-hang", "abort")
    process.send_signal(signal.SIGSTOP), time.sleep(2.5), process.send_signal(signal.SIGCONT)
    time.sleep(0.3)
    expect(process.poll() is None, "aborted")
    process.send_signal(signal.SIGTERM)
    expect(ended(process).exit == 143, "another end")


@case("kill -9 again and again, seed:", *[(seed,) for seed in range(4)])
def killed(weft, folder, seed):
    net, directory, draw = prepare(folder), f"{folder}/agent", random.Random(seed)
    arguments = ("run", net, "--epochs", EPOCHS)
    right = state_hash(weft(*arguments))
    for _ in range(8):
        process = weft.spawn(*arguments, "--quiet", "--state", directory)
        time.sleep(draw.uniform(0.01, 0.25))
        process.kill(), process.communicate()
    last = weft(*arguments, "--state", directory)
    expect(last.exit == 0 and state_hash(last) == right, "another state hash", (), last)


@case("two processes and one data directory: one of them is refused")
def two(weft, folder):
    directory = f"{folder}/agent"
    process = running(weft, folder, "--state", directory)
    weft.refuses(5, [directory, "in use by"], "run", f"{folder}/n.json", "--epochs", 1 << 30, "--state", directory)
    process.send_signal(signal.SIGTERM)
    expect(ended(process).exit == 143, "another end")
