#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An external environment for tests, in whole numbers alone: a walker on a grid of 5 by 5 looks for a place.

It speaks the protocol of docs/formats/environment.md, on stdin and stdout or on a socket, and can fail at a step:
    grid_environment.py [--socket PATH] [--fault KIND --at STEP --once FILE] [--unsteady]
The fault comes once: FILE marks that it did. --unsteady: another world in each process.
"""
import argparse
import json
import os
import signal
import socket
import sys
import time

SIZE, LIMIT = 5, 30
MOVES = [(0, -1), (0, 1), (-1, 0), (1, 0)]


class Grid:
    def __init__(self, salt=0):
        self.salt = salt

    def draw(self, below):
        self.random = (self.random * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        return (self.random >> 33) % below

    def reset(self, seed, episode):
        self.random = (seed * 1000003 + episode + self.salt) % 2 ** 64
        self.x, self.y, self.gx, self.gy = (self.draw(SIZE) for _ in range(4))
        self.steps = 0
        return self.seen()

    def seen(self):
        return [self.x, self.y, self.gx, self.gy]

    def step(self, action):
        dx, dy = MOVES[action]
        self.x, self.y = min(max(self.x + dx, 0), SIZE - 1), min(max(self.y + dy, 0), SIZE - 1)
        self.steps += 1
        found = (self.x, self.y) == (self.gx, self.gy)
        if self.draw(8) == 0 and not found:  # the place moves
            self.gx = self.draw(SIZE)
        return {"observation": self.seen(), "reward": 1.0 if found else -0.0625, "terminated": found,
                "truncated": not found and self.steps >= LIMIT}


def fail(kind, out):
    """Line in place of the answer; None: the answer as it is."""
    if kind == "hang":
        time.sleep(600)
    if kind == "half_hang":
        out.write('{"observation": [1, 2')
        out.flush()
        time.sleep(600)
    if kind == "half":
        out.write('{"observation": [1, 2')
        out.flush()
        os._exit(0)
    if kind == "die":
        os._exit(3)
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    good = {"observation": [1, 2, 3, 4], "reward": 0.5, "terminated": False, "truncated": False}
    return {"nan": json.dumps({**good, "observation": [1, float("nan"), 3, 4]}),
            "nan_reward": json.dumps({**good, "reward": float("-inf")}),
            "huge": '{"observation": [1, 2, 3, 1e39], "reward": 0, "terminated": false, "truncated": false}',
            "size": json.dumps({**good, "observation": [1, 2, 3]}),
            "text": "Traceback (most recent call last):",
            "list": "[1, 2]",
            "key": json.dumps({**good, "terminate": True}),
            "missing": json.dumps({"observation": [1, 2, 3, 4], "reward": 0.5, "terminated": False}),
            "flag": json.dumps({**good, "terminated": 1}),
            "error": json.dumps({"error": "the game has crashed"}),
            "long": '{"info": "' + "x" * 200000 + '"}'}[kind]


def serve(lines, out, options):
    grid, steps = Grid(os.getpid() if options.unsteady else 0), 0
    for line in lines:
        request = json.loads(line)
        kind = request["request"]
        if kind == "close":
            return
        if kind == "describe":
            answer = {"protocol": 1, "name": "grid", "observations": 4, "actions": options.actions}
        elif kind == "reset":
            answer = {"observation": grid.reset(request["seed"], request["episode"])}
        else:
            steps += 1
            answer = grid.step(request["action"])
        text = json.dumps(answer)
        if options.fault and steps == options.at and kind == "step" and not os.path.exists(options.once):
            open(options.once, "w").close()
            text = fail(options.fault, out) or text
        out.write(text + "\n")
        out.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket")
    parser.add_argument("--fault")
    parser.add_argument("--at", type=int, default=0)
    parser.add_argument("--once", default="")
    parser.add_argument("--actions", type=int, default=4)
    parser.add_argument("--unsteady", action="store_true")
    options = parser.parse_args()
    if not options.socket:
        return serve(sys.stdin, sys.stdout, options)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(options.socket)
        listener.listen(1)
        while True:
            connection = listener.accept()[0]
            with connection, connection.makefile("rw") as both:
                try:
                    serve(both, both, options)
                except OSError:
                    pass


if __name__ == "__main__":
    main()
