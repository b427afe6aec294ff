#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random requests to `weft serve`, first one after another, each alone, then many at once: every answer must be the
same, to the byte. The loaded runs have other numbers of threads, replicas on pretended NUMA nodes, beginnings of texts
that are shared, guesses, texts that give their slots away, and end by kill -9 in the middle; the next one goes on from
the data directories.

  tools/random_requests.py WEFT [REQUESTS] [RUNS] [SEED]     10,000 requests, 6 runs, seed 1

Requests: forward, embeddings and texts, which depend on nothing before; and ticks, runs, samples, late targets,
sessions and weights of eight meshes, each with an order of its own. After each of those the state's hash is asked for.
A request that a kill left without an answer is sent again where its mesh stands as before it, and passed over where it
was done; of ticks the rest is run. Texts need ../shared/data; without it there are none.
"""
import http.client
import json
import os
import pathlib
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
STORIES = ROOT / "../shared/data/stories260K/derived"
MESHES, CLIENTS = 8, 12
NODES = ["", "node:2 core:2 pu:1", "node:4 core:2 pu:1", "node:8 core:1 pu:1"]


def network(learns, late):
    made = {"weft": 2, "name": "random", "seed": 5, "grid": {"z": 1, "y": 2, "x": 3, "layers": 1}, "inputs": {"x": [6]},
            "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 16, "activation": "tanh", "from": ["x"]},
                       {"at": [0, 0, 1, 0], "type": "dense", "out": 16, "activation": "tanh", "from": [[0, 0, 0, 0]]},
                       {"at": [0, 1, 1, 0], "type": "dense", "out": 16, "activation": "tanh", "from": ["x"]},
                       {"at": [0, 0, 2, 0], "type": "dense", "out": 4, "from": [[0, 0, 1, 0], [0, 1, 1, 0]]}],
            "outputs": {"y": [0, 0, 2, 0]}}
    if learns:
        made["learning"] = {"rule": "backprop", "loss": "cross_entropy", "late": "meet" if late else "none",
                            "optimizer": {"type": "momentum", "lr": 0.05}}
    return made


def vector(draw):
    return [round(draw.uniform(-2, 2), 3) for _ in range(6)]


class Plan:
    """All requests: those that stand alone, and those of each mesh in their order."""

    def __init__(self, seed, count):
        draw = random.Random(seed)
        self.has_texts = STORIES.is_dir()
        self.kinds = ["plain", "plain", "learn", "learn", "late", "late", "plain", "late"][:MESHES]
        self.of_mesh = [[] for _ in range(MESHES)]
        self.alone = []
        sessions = [["0"] for _ in range(MESHES)]
        tickets = [[] for _ in range(MESHES)]
        seen = [0] * MESHES
        for _ in range(count):
            if draw.random() < 0.45:
                self.alone.append(self.stateless(draw))
                continue
            m = draw.randrange(MESHES)
            self.of_mesh[m].append(self.stateful(draw, m, sessions[m], tickets[m], seen))

    def stateless(self, draw):
        kind = draw.random()
        if kind < 0.12 and self.has_texts:
            start = draw.choice(["", "", "Once upon a time there was a little girl who had a red ball. " * draw.randrange(1, 5)])
            return "POST", "/v1/completions", {"model": "story", "prompt": start + draw.choice(["Once", "The dog", "Lily and Tom"]),
                                               "max_tokens": draw.randrange(1, 12), "temperature": draw.choice([0, 0.7, 1.3]),
                                               "top_p": draw.choice([1, 0.9]), "seed": draw.randrange(1000), "priority": draw.choice([0, 0, 0, 5, -5]),
                                               "cache_salt": draw.choice(["", "", "salt"])}
        if kind < 0.18 and self.has_texts:
            return "POST", "/v1/embeddings", {"model": "story", "input": draw.choice(["a cat", "the sun", "red ball"])}
        rows = [vector(draw) for _ in range(draw.randrange(1, 5))]
        return "POST", "/api/v1/meshes/fixed/forward", {"inputs": {"x": rows}}

    def stateful(self, draw, m, sessions, tickets, seen):
        path = f"/api/v1/meshes/m{m}"
        kind = self.kinds[m]
        if kind == "learn":
            samples = [{"inputs": {"x": vector(draw)}, "targets": {"y": draw.randrange(4)}} for _ in range(draw.randrange(1, 6))]
            return "POST", path + "/learn", {"samples": samples, "wait": "durable"}
        if kind == "late":
            if tickets and draw.random() < 0.5:
                ticket = tickets.pop(draw.randrange(len(tickets)))
                if draw.random() < 0.1:
                    return "POST", path + "/forgo", {"ticket": ticket, "wait": "durable"}
                return "POST", path + "/teach", {"ticket": ticket, "targets": {"y": draw.randrange(4)}, "wait": "durable"}
            if len(tickets) < 8:
                tickets.append(seen[m])
                seen[m] += 1
                return "POST", path + "/observe", {"inputs": {"x": vector(draw)}, "wait": "durable"}
            ticket = tickets.pop(0)
            return "POST", path + "/teach", {"ticket": ticket, "targets": {"y": draw.randrange(4)}, "wait": "durable"}
        choice = draw.random()
        if choice < 0.06 and len(sessions) < 4:
            name = f"s{draw.randrange(10**9)}"
            sessions.append(name)
            return "POST", path + "/sessions", {"name": name, "from": draw.choice(["zero", "clone:0"])}
        if choice < 0.1 and len(sessions) > 1:
            return "DELETE", path + "/sessions/" + sessions.pop(draw.randrange(1, len(sessions))), None
        body = {"n": draw.randrange(1, 40), "session": draw.choice(sessions), "wait": "durable"}
        if draw.random() < 0.8:
            body["inputs"] = {"x": vector(draw)}
        if draw.random() < 0.2:
            body["every"] = draw.randrange(1, 8)
        return "POST", path + "/tick", body


class Server:
    def __init__(self, weft, words, env, fresh):
        self.process = subprocess.Popen([weft, "serve", "--json", "--port", "0", "--queue", "1000", *map(str, words)],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **env})
        self.host, port = json.loads(self.process.stdout.readline())["listen"][0].rsplit(":", 1)
        self.port = int(port)
        self.local = threading.local()
        if fresh:
            for name, learns, late in fresh:
                made = {"name": name, "network": network(learns, late)}
                if name == "fixed":
                    made["data_directory"] = False
                status, body = self.ask("POST", "/api/v1/meshes", made)
                assert status == 201, body

    def ask(self, method, path, body=None):
        connection = getattr(self.local, "connection", None)
        if connection is None:
            connection = self.local.connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def kill(self):
        self.process.kill()
        self.process.communicate()


def shown(request, status, body):
    """The parts of an answer that must be the same: all but ids, times, and what a slot happened to have taken."""
    answer = json.loads(body) if body else None
    if isinstance(answer, dict):
        if "choices" in answer:
            return status, [(each["text"], each["finish_reason"]) for each in answer["choices"]]
        for key in ("latency_ms", "acknowledged_tick", "age_s"):
            answer.pop(key, None)
    return status, answer


def state_of(server, m):
    """The state that a request of a mesh changes: hash of all sessions and tick."""
    path = f"/api/v1/meshes/m{m}"
    status, body = server.ask("GET", path + "/hash")
    assert status == 200, body
    return json.loads(body)["hash"], json.loads(body)["tick"]


class Loaded:
    """One run of a server with many clients, until all is done or it is killed."""

    def __init__(self, server, plan, expected, states, done, begun):
        self.server, self.plan, self.expected, self.states = server, plan, expected, states
        self.done, self.begun = done, begun  # by mesh: requests done, and whether the next may have been
        self.wrong, self.again, self.passed, self.halves = [], 0, 0, 0
        self.lock = threading.Lock()

    def compare(self, key, request, status, body):
        found = shown(request, status, body)
        if found != self.expected[key]:
            with self.lock:
                self.wrong.append((key, request, self.expected[key], found))

    def is_finished(self, m, now):
        """Ticks that a kill ended in the middle, or before the first: the rest of them is run."""
        at = self.done[m]
        method, path, body = self.plan.of_mesh[m][at]
        if not path.endswith("/tick"):
            return False
        rest = {"n": self.states[m][at + 1][1] - now[1], "session": body["session"], "wait": "durable"}
        return self.server.ask(method, path, rest)[0] == 200 and state_of(self.server, m) == self.states[m][at + 1]

    def mesh_loop(self, m):
        order = self.plan.of_mesh[m]
        try:
            if self.begun[m]:
                now = state_of(self.server, m)
                at = self.done[m]
                if now == self.states[m][at + 1] and now != self.states[m][at]:
                    self.done[m] += 1
                    self.passed += 1
                elif now == self.states[m][at]:
                    self.again += 1
                elif self.is_finished(m, now):
                    self.done[m] += 1
                    self.halves += 1
                else:
                    self.wrong.append((("state", m, at), order[at], self.states[m][at:at + 2], now))
                    return
                self.begun[m] = False
            while self.done[m] < len(order):
                request = order[self.done[m]]
                self.begun[m] = True
                status, body = self.server.ask(*request)
                self.compare((m, self.done[m]), request, status, body)
                if "/sessions" in request[1]:
                    self.server.ask("POST", f"/api/v1/meshes/m{m}/mark", {})  # waits for the device, as others do
                self.done[m] += 1
                self.begun[m] = False
                if self.done[m] % 7 == 0 and state_of(self.server, m) != self.states[m][self.done[m]]:
                    self.wrong.append((("state", m, self.done[m]), request, None, None))
                    return
        except (OSError, http.client.HTTPException):
            return

    def alone_loop(self, waiting):
        while True:
            try:
                i = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                status, body = self.server.ask(*self.plan.alone[i])
            except (OSError, http.client.HTTPException):
                waiting.put(i)
                return
            self.compare(("alone", i), self.plan.alone[i], status, body)


def words_of(plan, threads, numa, state, writing=("--prefix-cache", "0")):
    models = [f"story={STORIES}", "--slots", "4", "--scheduling-policy", "priority", *writing] if plan.has_texts else []
    return [*models, "--threads", threads, "--numa", numa, "--state", state, "--durability", "tick"]


def run_alone(weft, plan, state):
    """The expected answers, and the state of each mesh after each of its requests."""
    meshes = [(f"m{m}", kind != "plain", kind == "late") for m, kind in enumerate(plan.kinds)] + [("fixed", False, False)]
    server = Server(weft, words_of(plan, 1, "off", state), {}, meshes)
    expected, states = {}, []
    try:
        for i, request in enumerate(plan.alone):
            expected["alone", i] = shown(request, *server.ask(*request))
        for m, order in enumerate(plan.of_mesh):
            states.append([state_of(server, m)])
            for i, request in enumerate(order):
                expected[m, i] = shown(request, *server.ask(*request))
                states[m].append(state_of(server, m))
    finally:
        server.kill()
    refused = sum(status >= 400 for status, _ in expected.values())
    same = sum(a == b for each in states for a, b in zip(each, each[1:]))
    return expected, states, refused, same


def main(weft, count, runs, seed):
    plan = Plan(seed, count)
    draw = random.Random(seed + 1)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        expected, states, refused, same = run_alone(weft, plan, pathlib.Path(scratch, "alone"))
        took = time.monotonic() - begin
        print(f"alone: {len(expected):,} requests in {took:.1f} s, {refused} refused, {same} without effect on a state")
        total = sum(map(len, plan.of_mesh)) + len(plan.alone)
        done, begun = [0] * MESHES, [False] * MESHES
        waiting = queue.Queue()
        for i in draw.sample(range(len(plan.alone)), len(plan.alone)):
            waiting.put(i)
        wrong, again, passed, halves, kills = [], 0, 0, 0, 0
        fresh = [(f"m{m}", kind != "plain", kind == "late") for m, kind in enumerate(plan.kinds)]
        for number in range(100 * runs):
            threads, nodes = [1, 2, 7][number % 3], NODES[number % len(NODES)]
            numa = ["off", "replicas", "distribute"][number % 3] if nodes else "off"
            writing = [["--draft-lookup"], ["--prefix-cache", "1MiB", "--draft", STORIES], []][number // 2 % 3]
            server = Server(weft, words_of(plan, threads, numa, pathlib.Path(scratch, "loaded"), writing),
                            {"HWLOC_SYNTHETIC": nodes} if nodes else {},
                            (fresh if number == 0 else []) + [("fixed", False, False)])
            run = Loaded(server, plan, expected, states, done, begun)
            clients = [threading.Thread(target=run.mesh_loop, args=(m,)) for m in range(MESHES)]
            clients += [threading.Thread(target=run.alone_loop, args=(waiting,)) for _ in range(CLIENTS)]
            left = sum(len(order) - at for order, at in zip(plan.of_mesh, done)) + waiting.qsize()
            for each in clients:
                each.start()
            goal = total * (number + draw.uniform(0.5, 1)) / runs
            while number < runs - 1 and any(each.is_alive() for each in clients):
                if total - sum(len(order) - at for order, at in zip(plan.of_mesh, done)) - waiting.qsize() >= goal:
                    break
                time.sleep(0.0005)
            is_killed = number < runs - 1
            if is_killed:
                server.process.kill()
            for each in clients:
                each.join()
            if not is_killed:
                for m in range(MESHES):
                    if done[m] == len(plan.of_mesh[m]) and state_of(server, m) != states[m][-1]:
                        run.wrong.append((("end", m), None, states[m][-1], None))
            server.kill()
            kills += is_killed
            wrong += run.wrong
            again, passed, halves = again + run.again, passed + run.passed, halves + run.halves
            now = sum(len(order) - at for order, at in zip(plan.of_mesh, done)) + waiting.qsize()
            print(f"run {number + 1}: --threads {threads} --numa {numa} on '{nodes or 'this machine'}': {left - now:,} answers"
                  f"{', killed' if is_killed else ''}, {len(run.wrong)} wrong")
            if now == 0 or run.wrong:
                break
        for key, request, wanted, found in wrong[:3]:
            print(f"wrong: {key}: {request}\n  alone:  {str(wanted)[:400]}\n  loaded: {str(found)[:400]}")
        assert not wrong and now == 0, f"{len(wrong)} wrong, {now} not asked"
        print(f"{total:,} requests under load had the answers that they have alone; {kills} kills, after which {again} were "
              f"sent again, {passed} had been done and {halves} were in the middle of their ticks")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 5:
        sys.exit(__doc__)
    given = [int(each) for each in sys.argv[2:]] + [10000, 6, 1][len(sys.argv) - 2:]
    main(sys.argv[1], *given)
