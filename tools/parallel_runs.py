# SPDX-License-Identifier: Apache-2.0
"""Runs of several arms and seeds at once, with what is known of each in a file that is written while they go on."""
import concurrent.futures
import json
import multiprocessing
import pathlib
import queue
import time


class Results:
    """Of each run what is known, in a file too."""

    def __init__(self, path, protocol, whole):
        """whole: the key that a run has when nothing of it is missing."""
        self.path, self.protocol, self.whole, self.runs, self.written = path, protocol, whole, {}, time.monotonic()
        if self.path and self.path.exists():
            known = json.loads(self.path.read_text())
            if known["protocol"] != self.protocol:
                raise SystemExit(f"{self.path}: is of {known['protocol']}, not {self.protocol}")
            self.runs = {(one["arm"], one["seed"]): one for one in known["runs"]}

    def has(self, key):
        return self.whole in self.runs.get(key, {})

    def add(self, key, found):
        if not self.has(key):
            self.runs[key] = {"arm": key[0], "seed": key[1], **found}

    def write(self, seconds=0):
        if self.path and time.monotonic() - self.written >= seconds:
            self.written = time.monotonic()
            whole = {"protocol": self.protocol, "runs": list(self.runs.values())}
            beside = self.path.with_suffix(".new")
            beside.write_text(json.dumps(whole))
            beside.replace(self.path)


def measure(run, args, arms, seeds, results, print_row):
    """run(key, args, told_to) of what the results lack, args.jobs at once; prints an arm's row when its last seed is there."""
    keys = [(arm, seed) for arm in arms for seed in seeds]
    shown = set()

    def show():
        for arm in arms:
            if arm not in shown and all(results.has((arm, seed)) for seed in seeds):
                shown.add(arm)
                print_row(arm)

    with (multiprocessing.Manager() as manager,
          concurrent.futures.ProcessPoolExecutor(max_workers=args.jobs) as pool):
        told = manager.Queue()
        pending = {pool.submit(run, key, args, told): key for key in keys if not results.has(key)}
        show()
        while pending:
            ready, _ = concurrent.futures.wait(pending, timeout=5, return_when=concurrent.futures.FIRST_COMPLETED)
            try:
                while True:
                    results.add(*told.get_nowait())
            except queue.Empty:
                pass
            for future in ready:
                key = pending.pop(future)
                try:
                    results.add(key, future.result())
                except RuntimeError:
                    pool.shutdown(wait=False, cancel_futures=True)
                    results.write()
                    raise
            show()
            results.write(30)
    results.write()


def add_arguments(parser):
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
