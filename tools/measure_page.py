#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processor time that the page of `weft serve` takes in Chromium, at ten frames a second of 256x256 cells that tick 20
times a second, by kind of process. Needs Chromium and its driver.

  tools/measure_page.py WEFT [SECONDS]         10 seconds
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/cli"))
from page_test import FLAGS, ask  # noqa: E402

NETWORK = {"weft": 2, "name": "wave", "grid": {"y": 256, "x": 256}, "inputs": {"drive": [1]},
           "layers": [{"repeat": {"y": [0, 256], "x": [0, 256]}, "type": "dense", "out": 1, "activation": "tanh",
                       "from": ["drive"], "neighbours": "von_neumann"}], "outputs": {"y": [0, 0, 255, 0]}}


def descendants(root):
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    found, grows = {root}, True
    while grows:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grows = bool(more)
    return found - {root}


def seconds_by_kind(root):
    used = {}
    for pid in descendants(root):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").split(b" ")
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        kind = next((each[7:].decode() for each in words if each.startswith(b"--type=")), "browser")
        used[kind] = used.get(kind, 0) + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def main(weft, seconds):
    with tempfile.TemporaryDirectory() as folder:
        network = pathlib.Path(folder, "wave.json")
        network.write_text(json.dumps(NETWORK))
        server = subprocess.Popen([weft, "serve", "--json", "--port", "0", "--threads", "1", network],
                                  stdout=subprocess.PIPE, text=True)
        driver = subprocess.Popen([shutil.which("chromedriver"), "--port=0"], stdout=subprocess.PIPE, text=True)
        session = ""
        try:
            address = json.loads(server.stdout.readline())["listen"][0]
            ask(address, "POST", "/api/v1/meshes/wave/run", {"mode": "free", "tick_rate": 20})
            ask(address, "POST", "/api/v1/meshes/wave/tick", {"n": 1, "inputs": {"drive": [1]}})
            port = next(int(line.split()[-1].rstrip(".")) for line in driver.stdout if "successfully on port" in line)
            to = f"127.0.0.1:{port}"
            options = {"args": [*FLAGS, "--window-size=1440,900", f"--user-data-dir={folder}/profile"]}
            wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
            session = "/session/" + json.loads(ask(to, "POST", "/session", wanted)[2])["value"]["sessionId"]

            def run(script):
                return json.loads(ask(to, "POST", f"{session}/execute/sync", {"script": script, "args": []})[2])["value"]

            ask(to, "POST", f"{session}/url", {"url": f"http://{address}/#wave"})
            run("window.frames_ = 0; const before = window.fetch; window.fetch = (...all) => { "
                "frames_ += String(all[0]?.url ?? all[0]).includes('/heatmap'); return before(...all); }")
            time.sleep(3)  # until it is at rest
            before, first = seconds_by_kind(driver.pid), run("return window.frames_")
            time.sleep(seconds)
            used, last = seconds_by_kind(driver.pid), run("return window.frames_")
            share = {kind: 100 * (used[kind] - before.get(kind, 0)) / seconds for kind in used}
            print(f"{(last - first) / seconds:.1f} frames a second; of a core: " + ", ".join(
                f"{kind} {part:.1f} %" for kind, part in sorted(share.items())) + f", all {sum(share.values()):.1f} %")
        finally:
            if session:
                ask(to, "DELETE", session)
            for each in (driver, server):
                each.terminate()
                each.communicate()


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3 or not shutil.which("chromedriver"):
        sys.exit(__doc__)
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 10)
