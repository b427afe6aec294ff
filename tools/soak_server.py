#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many connections, 1,000 slow clients, hostile ones and a mixed load on `weft serve`, with kill -9 in between: samples,
ticks, passes, sessions, events, texts (where ../shared/data is there), probes. After each run what was acknowledged as
durable must be there. Memory must not have grown by more than 2 % in the second half of a run, descriptors by no more
than 2 % either.

  tools/soak_server.py WEFT [SECONDS] [CONNECTS] [SLOW]     60 s, in two runs, 20,000 connects, 1,000 slow clients
"""
import contextlib
import http.client
import json
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

RUNS, EACH, CONNECTORS, READERS = 2, 56, 3, 8  # EACH: slow clients of one address, of which a server takes 64
STORIES = pathlib.Path(__file__).resolve().parents[2] / "shared/data/stories260K/derived"
NETWORK = {"weft": 2, "name": "small", "grid": {"z": 1, "y": 1, "x": 2, "layers": 1}, "inputs": {"x": [4]},
           "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 8, "activation": "tanh", "from": ["x"]},
                      {"at": [0, 0, 1, 0], "type": "dense", "out": 3}],
           "outputs": {"y": [0, 0, 1, 0]},
           "learning": {"rule": "backprop", "loss": "cross_entropy", "optimizer": {"type": "sgd", "lr": 0.1}}}
PLAIN = {key: value for key, value in NETWORK.items() if key != "learning"}
ROW = [1, 0, 0.5, -1]
SAMPLE = {"samples": [{"inputs": {"x": ROW}, "targets": {"y": 2}}], "wait": "durable"}
HOSTILE = [b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", b"\x16\x03\x01\x02\x00\x01",
           b"GET /health HTTP/9.9\r\n\r\n", b"A" * 40000, b"POST /api/v1/meshes/small/learn HTTP/1.1\r\nHost: localhost\r\n"
           b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{\"samples\": [", b"\r\n\r\n\r\n", b""]
SLOW_HEAD = b"GET /api/v1/meshes/small HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"a" * 4000
LOST = (OSError, http.client.HTTPException, ValueError)


class ServerRun:
    def __init__(self, weft, words):
        self.process = subprocess.Popen([weft, "serve", "--json", "--port", "0", "--threads", "1", *map(str, words)],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.host, port = json.loads(self.process.stdout.readline())["listen"][0].rsplit(":", 1)
        self.port = int(port)
        self.ends = threading.Event()
        self.lock = threading.Lock()
        self.counts = {key: 0 for key in ("connects", "hostile", "slow", "learn", "tick", "forward", "sessions", "events",
                                          "texts", "probes", "busy")}
        self.faults = []
        self.acknowledged = {"small": 0, "plain": 0}
        self.sessions = set()
        self.most_probe = 0.0

    def count(self, kind):
        with self.lock:
            self.counts[kind] += 1

    def ask(self, method, path, body=None, connection=None):
        made = connection or http.client.HTTPConnection(self.host, self.port, timeout=60)
        made.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        answer = made.getresponse()
        data = answer.read()
        if connection is None:
            made.close()
        return answer.status, data

    def sizes(self):
        """Resident bytes and descriptors, the medians of some looks: clients come and go."""
        folder = pathlib.Path(f"/proc/{self.process.pid}")
        looks = []
        for _ in range(15):
            looks.append((int((folder / "statm").read_text().split()[1]) * 4096, len(list((folder / "fd").iterdir()))))
            time.sleep(0.1)
        return [statistics.median(each) for each in zip(*looks)]

    def loop(self, kind, act):
        """Acts on one connection until the run ends; the kill ends it too."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        while not self.ends.is_set():
            try:
                status = act(lambda *words: self.ask(*words, connection=connection))
            except LOST:
                if not self.ends.is_set() and self.process.poll() is None:
                    self.faults.append(f"{kind}: the connection was lost")
                return
            if status in (429, 503):
                self.count("busy")
            elif status >= 400:
                self.faults.append(f"{kind}: {status}")
            else:
                self.count(kind)

    def acknowledge(self, name, status, data):
        if status == 200:
            with self.lock:
                self.acknowledged[name] = max(self.acknowledged[name], json.loads(data)["tick"])
        return status

    def learn(self, ask):
        return self.acknowledge("small", *ask("POST", "/api/v1/meshes/small/learn", SAMPLE))

    def tick(self, ask):
        body = {"n": 3, "inputs": {"x": ROW}, "wait": "durable"}
        return self.acknowledge("plain", *ask("POST", "/api/v1/meshes/plain/tick", body))

    def forward(self, ask):
        return ask("POST", "/api/v1/meshes/plain/forward", {"inputs": {"x": [ROW] * random.randrange(1, 8)}})[0]

    def session(self, ask):
        name = f"s{random.randrange(10 ** 12)}"
        status, _ = ask("POST", "/api/v1/meshes/plain/sessions", {"name": name, "from": "clone:0"})
        if status >= 400:
            return status
        status, _ = ask("POST", "/api/v1/meshes/plain/mark", {})  # waits for the device
        with self.lock:
            self.sessions.add(name)
            oldest = next(iter(self.sessions)) if len(self.sessions) > 12 else None
            if oldest:
                self.sessions.discard(oldest)
        if oldest:
            ask("DELETE", f"/api/v1/meshes/plain/sessions/{oldest}")
        self.ends.wait(2)  # each is an event, of which the server keeps 4,096: that is no leak, but takes memory for long
        return status

    def text(self, ask):
        body = {"model": "story", "prompt": "Once upon a time", "max_tokens": random.randrange(1, 24),
                "seed": random.randrange(1000)}
        return ask("POST", "/v1/completions", body)[0]

    def probe(self, ask):
        begun = time.monotonic()
        status = ask("GET", random.choice(["/health", "/metrics", "/api/v1/meshes", "/api/v1/meshes/small"]))[0]
        self.most_probe = max(self.most_probe, time.monotonic() - begun)
        time.sleep(0.01)
        return status

    def read_events(self):
        while not self.ends.is_set():
            with contextlib.suppress(*LOST), socket.create_connection((self.host, self.port), timeout=10) as made:
                made.sendall(b"GET /api/v1/meshes/small/events?every=0.1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                until = time.monotonic() + random.uniform(0.5, 5)
                while time.monotonic() < until and not self.ends.is_set() and made.recv(4096):
                    pass
            self.count("events")

    def connect(self, most):
        while not self.ends.is_set() and self.counts["connects"] < most:
            try:
                with socket.create_connection((self.host, self.port), timeout=30, source_address=(f"127.0.0.{random.randrange(4, 12)}", 0)) as made:
                    made.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    if not made.recv(4096).startswith(b"HTTP/1.1 200"):
                        self.faults.append("connect: not answered")
            except OSError as error:
                if not self.ends.is_set():
                    self.faults.append(f"connect: {error}")
            self.count("connects")

    def be_hostile(self):
        draw = random.Random(7)
        while not self.ends.is_set():
            with contextlib.suppress(OSError):
                with socket.create_connection((self.host, self.port), source_address=("127.0.0.2", 0)) as made:
                    text = draw.choice(HOSTILE)
                    made.sendall(text[:draw.randrange(len(text) + 1)])
                    if draw.random() < 0.5:
                        made.settimeout(0.05)
                        made.recv(4096)
            self.count("hostile")

    def be_slow(self, slow):
        """So many clients that send a byte of their head now and then; one that is closed comes again."""
        clients = [None] * slow
        while not self.ends.is_set():
            for i in range(slow):
                try:
                    if clients[i] is None:
                        made = socket.socket()
                        made.bind((f"127.0.1.{1 + i // EACH}", 0))
                        made.connect((self.host, self.port))
                        made.setblocking(False)
                        clients[i] = [made, 1]
                        self.count("slow")
                    made, at = clients[i]
                    made.send(SLOW_HEAD[at - 1:at])
                    clients[i][1] = at + 1
                    with contextlib.suppress(BlockingIOError):
                        made.recv(4096)  # the answer 408, and the end
                        made.close()
                        clients[i] = None
                except OSError:
                    if clients[i]:
                        clients[i][0].close()
                    clients[i] = None
                if self.ends.is_set():
                    break
            self.ends.wait(1)
        for each in clients:
            if each:
                each[0].close()


def loaded_run(weft, words, seconds, connects, slow):
    run = ServerRun(weft, words)
    loops = [(run.connect, (connects,))] * CONNECTORS + [(run.be_hostile, ()), (run.be_slow, (slow,))]
    loops += [(run.read_events, ())] * READERS
    acts = [("learn", run.learn), ("learn", run.learn), ("tick", run.tick), ("forward", run.forward),
            ("sessions", run.session), ("probes", run.probe)]
    if STORIES.is_dir():
        acts += [("texts", run.text)] * 2
    threads = [threading.Thread(target=loop, args=words, daemon=True) for loop, words in loops]
    threads += [threading.Thread(target=run.loop, args=each, daemon=True) for each in acts]
    begun = time.monotonic()
    for each in threads:
        each.start()
    half = begun + max(seconds / 2, 12)  # slow clients are closed after 10 s for the first time
    trace = []
    while time.monotonic() < half:
        time.sleep(max(seconds / 20, 3))
        trace.append(f"{run.sizes()[0] / 2**20:.1f}")
    first = run.sizes()
    while time.monotonic() < begun + seconds or run.counts["connects"] < connects:
        time.sleep(max(seconds / 20, 3))
        trace.append(f"{run.sizes()[0] / 2**20:.1f}")
    print("MiB: " + ", ".join(trace), flush=True)
    last = run.sizes()
    run.process.kill()
    run.ends.set()
    for each in threads:
        each.join(5)
    run.process.communicate()
    return run, first, last


def check_what_lasts(weft, words, run):
    again = ServerRun(weft, words)
    for name, tick in run.acknowledged.items():
        found = json.loads(again.ask("GET", f"/api/v1/meshes/{name}")[1])["ticks"]
        assert found >= tick, (name, found, tick)
    known = {each["session"] for each in json.loads(again.ask("GET", "/api/v1/meshes/plain/sessions")[1])["sessions"]}
    assert run.sessions <= known, run.sessions - known
    for name in known - {"0"}:
        again.ask("DELETE", f"/api/v1/meshes/plain/sessions/{name}")
    again.ask("POST", "/api/v1/meshes/plain/mark", {})
    again.process.kill()
    again.process.communicate()


def main(weft, seconds, connects, slow):
    with tempfile.TemporaryDirectory() as scratch:
        words = []
        for network, name in ((NETWORK, "small"), (PLAIN, "plain")):
            path = pathlib.Path(scratch, f"{name}.json")
            path.write_text(json.dumps(network))
            words.append(path)
        words += [f"story={STORIES}", "--slots", "4"] if STORIES.is_dir() else []
        words += ["--state", pathlib.Path(scratch, "state")]
        worst = [0.0, 0.0]
        for number in range(RUNS):
            begun = time.monotonic()
            run, first, last = loaded_run(weft, words, seconds / RUNS, -(-connects // RUNS), slow)
            growth = [b / a - 1 for a, b in zip(first, last)]
            worst = [max(each) for each in zip(worst, growth)]
            print(f"run {number + 1}, {time.monotonic() - begun:.0f} s: {json.dumps(run.counts)}; memory {first[0] / 2**20:.1f} to "
                  f"{last[0] / 2**20:.1f} MiB ({100 * growth[0]:+.1f} %), descriptors {first[1]:.0f} to {last[1]:.0f}, longest "
                  f"probe {1000 * run.most_probe:.0f} ms; acknowledged ticks {run.acknowledged}, {len(run.sessions)} sessions; "
                  "killed", flush=True)
            assert not run.faults, (len(run.faults), run.faults[:5])
            check_what_lasts(weft, words, run)
            assert growth[0] <= 0.02 and growth[1] <= 0.02, (first, last)
        print(f"nothing acknowledged was lost; memory grew by {100 * worst[0]:.1f} % at most, descriptors by {100 * worst[1]:.1f} %")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 5:
        sys.exit(__doc__)
    main(sys.argv[1], *[int(each) for each in (sys.argv[2:] + ["60", "20000", "1000"][len(sys.argv) - 2:])])
