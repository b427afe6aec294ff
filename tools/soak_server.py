#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many connections, slow and hostile clients and a mixed load on `weft serve`, with kill -9 in between. After each run
what was acknowledged as durable must be there, and memory and descriptors must not have grown between the end of the
first tenth and the end of a run.

  tools/soak_server.py WEFT [SECONDS] [CONNECTS]      60 s, in three runs, and 20,000 connects by default
"""
import http.client
import json
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

RUNS, SLOW = 3, 24
NETWORK = {"weft": 2, "name": "small", "grid": {"z": 1, "y": 1, "x": 2, "layers": 1}, "inputs": {"x": [4]},
           "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 8, "activation": "tanh", "from": ["x"]},
                      {"at": [0, 0, 1, 0], "type": "dense", "out": 3}],
           "outputs": {"y": [0, 0, 1, 0]},
           "learning": {"rule": "backprop", "loss": "cross_entropy", "optimizer": {"type": "sgd", "lr": 0.1}}}
SAMPLE = {"samples": [{"inputs": {"x": [1, 0, 0.5, -1]}, "targets": {"y": 2}}]}
HOSTILE = [b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", b"\x16\x03\x01\x02\x00\x01",
           b"GET /health HTTP/9.9\r\n\r\n", b"A" * 40000, b"POST /api/v1/meshes/small/learn HTTP/1.1\r\nHost: localhost\r\n"
           b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{\"samples\": [", b"\r\n\r\n\r\n", b""]


class ServerRun:
    def __init__(self, weft, words):
        self.process = subprocess.Popen([weft, "serve", "--json", "--port", "0", "--threads", "1", *map(str, words)],
                                        stdout=subprocess.PIPE, text=True)
        self.address = json.loads(self.process.stdout.readline())["listen"][0]
        self.host, port = self.address.rsplit(":", 1)
        self.port = int(port)
        self.ends = threading.Event()
        self.counts = {"connects": 0, "requests": 0, "hostile": 0, "faults": []}
        self.acknowledged = self.most_health = 0

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        self.counts["requests"] += 1
        return answer.status, data

    def sizes(self):
        """Resident bytes and descriptors, once what is idle is closed."""
        folder = pathlib.Path(f"/proc/{self.process.pid}")
        resident = int((folder / "statm").read_text().split()[1]) * 4096
        return resident, len(list((folder / "fd").iterdir()))

    def connect_loop(self, most):
        while not self.ends.is_set() and self.counts["connects"] < most:
            with socket.create_connection((self.host, self.port)) as made:
                made.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if not made.recv(4096).startswith(b"HTTP/1.1 200"):
                    self.counts["faults"].append("connect: not answered")
            self.counts["connects"] += 1

    def hostile_loop(self):
        draw = random.Random(7)
        while not self.ends.is_set():
            try:
                with socket.create_connection((self.host, self.port), source_address=("127.0.0.2", 0)) as made:
                    text = draw.choice(HOSTILE)
                    made.sendall(text[:draw.randrange(len(text) + 1)])
                    if draw.random() < 0.5:
                        made.settimeout(0.05)
                        made.recv(4096)
            except OSError:
                pass
            self.counts["hostile"] += 1

    def learn_loop(self):
        while not self.ends.is_set():
            try:
                status, data = self.ask("POST", "/api/v1/meshes/small/learn", {**SAMPLE, "wait": "durable"})
                if status == 200:
                    self.acknowledged = max(self.acknowledged, json.loads(data)["tick"])
            except (OSError, http.client.HTTPException):
                return  # killed: what was not answered was not acknowledged

    def health_loop(self):
        while not self.ends.is_set():
            begun = time.monotonic()
            try:
                self.ask("GET", random.choice(["/health", "/metrics", "/api/v1/meshes", "/api/v1/meshes/small"]))
            except (OSError, http.client.HTTPException):
                return
            self.most_health = max(self.most_health, time.monotonic() - begun)
            time.sleep(0.01)


def loaded_run(weft, words, seconds, connects):
    run = ServerRun(weft, words)
    slow = []
    for _ in range(SLOW):
        made = socket.create_connection((run.host, run.port), source_address=("127.0.0.3", 0))
        made.sendall(b"GET /api/v1/meshes/small HT")
        slow.append(made)
    loops = [(run.learn_loop, ()), (run.health_loop, ()), (run.hostile_loop, ()), (run.connect_loop, (connects,))]
    threads = [threading.Thread(target=loop, args=words, daemon=True) for loop, words in loops]
    for each in threads:
        each.start()
    time.sleep(seconds / 10)
    first = run.sizes()
    time.sleep(seconds * 0.9)
    while run.counts["connects"] < connects:
        time.sleep(0.1)
    last = run.sizes()
    run.process.kill()
    run.ends.set()
    for each in threads:
        each.join(5)
    run.process.communicate()
    for each in slow:
        each.close()
    return run, first, last


def main(weft, seconds, connects):
    with tempfile.TemporaryDirectory() as scratch:
        network = pathlib.Path(scratch, "small.json")
        network.write_text(json.dumps(NETWORK))
        words = [network, "--state", pathlib.Path(scratch, "state")]
        worst = 0.0
        for number in range(RUNS):
            run, first, last = loaded_run(weft, words, seconds / RUNS, connects // RUNS)
            assert not run.counts["faults"], run.counts["faults"][:3]
            growth = last[0] / first[0] - 1
            worst = max(worst, growth)
            print(f"run {number + 1}: {run.counts['connects']:,} connects, {run.counts['requests']:,} requests, "
                  f"{run.counts['hostile']:,} hostile; memory {first[0] / 2**20:.1f} to {last[0] / 2**20:.1f} MiB "
                  f"({100 * growth:+.1f} %), descriptors {first[1]} to {last[1]}, longest probe {1000 * run.most_health:.0f} ms; "
                  f"acknowledged tick {run.acknowledged}, killed")
            again = ServerRun(weft, words)
            tick = json.loads(again.ask("GET", "/api/v1/meshes/small")[1])["ticks"]
            again.process.kill()
            again.process.communicate()
            assert tick >= run.acknowledged, (tick, run.acknowledged)
            assert abs(last[1] - first[1]) <= 8, (first, last)
        print(f"nothing acknowledged was lost; memory grew by {100 * worst:.1f} % at most")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    main(sys.argv[1], *[int(each) for each in (sys.argv[2:] + ["60", "20000"][len(sys.argv) - 2:])])
