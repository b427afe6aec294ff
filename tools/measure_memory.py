#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Resident memory of `weft serve` under one kind of request at a time, all kinds in turn at one server.

  tools/measure_memory.py WEFT [SECONDS] [KIND...]     5 looks of 4 s a kind; prints requests so far and KiB at each look
"""
import http.client
import json
import pathlib
import random
import socket
import sys
import tempfile
import time

import soak_server


def kinds_of(run):
    held = []

    def send(data, wait, address="127.0.0.1"):
        made = socket.socket()
        made.bind((address, 0))
        made.connect((run.host, run.port))
        try:
            made.sendall(data)
            if wait:
                made.settimeout(wait)
                made.recv(4000)
        except OSError:
            pass
        return made

    def session(ask, is_marked):
        name = f"s{random.randrange(10 ** 12)}"
        ask("POST", "/api/v1/meshes/plain/sessions", {"name": name, "from": "clone:0"})
        if is_marked:
            ask("POST", "/api/v1/meshes/plain/mark", {})
        ask("DELETE", f"/api/v1/meshes/plain/sessions/{name}")

    def slow(_):
        held.append(send(soak_server.SLOW_HEAD, 0, f"127.0.0.{random.randrange(1, 200)}"))
        if len(held) > 400:
            held.pop(0).close()

    events = b"GET /api/v1/meshes/plain/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    kinds = {"sessions": lambda ask: session(ask, True), "learn": run.learn, "tick": run.tick, "forward": run.forward,
             "connects": lambda ask: run.ask("GET", "/health"),
             "broken": lambda ask: send(random.choice(soak_server.HOSTILE), 0.02).close(),
             "metrics": lambda ask: ask("GET", "/metrics"), "events": lambda ask: send(events, 0.05).close(), "slow": slow,
             "unmarked": lambda ask: session(ask, False)}
    if soak_server.STORIES.is_dir():
        kinds["texts"] = run.text
    return kinds


def main(weft, seconds, wanted):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        words = []
        for network, name in ((soak_server.NETWORK, "small"), (soak_server.PLAIN, "plain")):
            words.append(folder / f"{name}.json")
            words[-1].write_text(json.dumps({**network, "name": name}))
        words += [f"story={soak_server.STORIES}", "--slots", "4"] if soak_server.STORIES.is_dir() else []
        run = soak_server.ServerRun(weft, [*words, "--state", folder / "state"])
        kinds = kinds_of(run)
        for kind in wanted or kinds:
            connection = http.client.HTTPConnection(run.host, run.port, timeout=60)
            count, looks = 0, []
            for _ in range(5):
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    kinds[kind](lambda *each: run.ask(*each, connection=connection))
                    count += 1
                resident = int(pathlib.Path(f"/proc/{run.process.pid}/statm").read_text().split()[1]) * 4
                looks.append(f"{count} {resident}")
            connection.close()
            print(f"{kind}: {', '.join(looks)}", flush=True)
        run.process.kill()
        run.process.communicate()


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1], float((sys.argv[2:] or ["4"])[0]), sys.argv[3:])
