# SPDX-License-Identifier: Apache-2.0
"""The page of `weft serve`: its files and their headers, and, where Chromium and its driver are, the page in it.

  tests/cli/page_test.py WEFT
"""
import base64
import http.client
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORIES = ROOT / "../shared/data/stories260K/derived"
MOST_BYTES = 60 * 1024  # of all files as a browser gets them
WAVE = {"weft": 2, "name": "wave", "grid": {"y": 8, "x": 8}, "inputs": {"drive": [1]},
        "layers": [{"repeat": {"y": [0, 8], "x": [0, 8]}, "type": "dense", "out": 1, "activation": "tanh",
                    "from": ["drive"], "neighbours": "von_neumann"}], "outputs": {"y": [0, 0, 7, 0]}}
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def ask(address, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, answer.headers, data


def check_files(address):
    total = 0
    for name in ["/"] + [f"/assets/{path.name}" for path in (ROOT / "server/page").iterdir() if path.suffix != ".html"]:
        status, headers, data = ask(address, "GET", name, headers={"Accept-Encoding": "gzip"})
        assert status == 200 and headers["Content-Encoding"] == "gzip", (name, status)
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'"), name
        assert headers.get_all("Cache-Control") == ["no-cache"], (name, headers.get_all("Cache-Control"))
        total += len(data)
        again = ask(address, "GET", name, headers={"Accept-Encoding": "gzip", "If-None-Match": headers["ETag"]})
        assert again[0] == 304 and not again[2], name
        plain = ask(address, "GET", name)
        file = ROOT / "server/page" / (name.rpartition("/")[2] or "index.html")
        assert plain[2] == file.read_bytes() and plain[1]["ETag"] != headers["ETag"], name
    assert total <= MOST_BYTES, total
    assert ask(address, "POST", "/", {})[0] == 405 and ask(address, "GET", "/assets/none.mjs")[0] == 404


def check_cells(address):
    mesh = "/api/v1/meshes/wave"
    ask(address, "POST", f"{mesh}/tick", {"n": 3, "inputs": {"drive": [1]}})
    listed = json.loads(ask(address, "GET", f"{mesh}/cells?metric=value&most=64")[2])["cells"]
    frame = ask(address, "GET", f"{mesh}/heatmap?metric=value")[2]
    magic, width, height, _, metric, flags, _, tick, low, high = struct.unpack("<4sHHHBBIQff", frame[:32])
    assert (magic, width, height, metric, flags, tick, len(frame)) == (b"WHM1", 8, 8, 1, 1, 3, 96)
    assert low == -high and high > 0
    for each in listed:
        _, y, x = each["cell"]
        code = frame[32 + y * 8 + x]
        assert abs(low + (high - low) * code / 254 - each["value"]) <= high / 254 * 1.01, each
        one = json.loads(ask(address, "GET", f"{mesh}/cells/0,{y},{x}")[2])
        assert abs(one["outputs"][0] - each["value"]) < 1e-6, each
    tag = {"If-None-Match": '"3"'}
    assert ask(address, "GET", f"{mesh}/heatmap?metric=value", headers=tag)[::2] == (304, b"")
    assert ask(address, "GET", f"{mesh}/heatmap?metric=status", headers=tag)[0] == 200, "statuses change between ticks"
    small = ask(address, "GET", f"{mesh}/heatmap?w=4&h=2")[2]
    assert struct.unpack("<HH", small[4:8]) == (4, 2) and small[11] & 2 and len(small) == 40
    for query, status in (("metric=gossip", 422), ("z=1", 422), ("w=0", 422), ("session=none", 404)):
        assert ask(address, "GET", f"{mesh}/heatmap?{query}")[0] == status, query
    assert ask(address, "GET", f"{mesh}/cells/0,0,8")[0] == 404


def type_keys(to, session, keys):
    """Keys of the WebDriver protocol, one after the other, to what has the focus."""
    steps = [{"type": kind, "value": each} for each in keys for kind in ("keyDown", "keyUp")]
    ask(to, "POST", f"{session}/actions", {"actions": [{"type": "key", "id": "keys", "actions": steps}]})


def check_actions(address, run, until, type_keys):
    """By keys alone: cells, a session added and removed after a question, a digit drawn; a drift's mark; curl."""
    left, up, right, down, enter, tab, delete = "\ue012\ue013\ue014\ue015\ue007\ue004\ue017"
    mesh = "/api/v1/meshes/digits"
    run("document.getElementById('map').focus()")
    type_keys(right + down)
    until("return document.getElementById('map-cell').textContent.includes('0,1,1')")
    type_keys(enter)
    until("return !document.getElementById('cell').hidden && document.getElementById('cell-facts').children.length > 4")
    run("document.getElementById('session-name').focus()")
    type_keys("second" + enter)
    until("return [...document.querySelectorAll('#sessions td')].some(each => each.textContent === 'second')")
    run("document.querySelector('[aria-label=\"Remove session second\"]').focus()")
    type_keys(enter)
    until("return document.getElementById('confirm').open")
    type_keys(enter)  # on the button that leaves it
    until("return !document.getElementById('confirm').open")
    assert len(json.loads(ask(address, "GET", f"{mesh}/sessions")[2])["sessions"]) == 2
    run("document.querySelector('[aria-label=\"Remove session second\"]').click()")
    until("return document.getElementById('confirm').open")
    run("document.querySelector('#confirm .main').click()")
    until("return document.getElementById('sessions').children.length === 1")
    run("document.getElementById('paper').focus()")
    type_keys(" " + down * 6 + left * 2)
    until("return document.getElementById('answers').children.length === 3")
    type_keys(delete)
    until("return document.getElementById('answers').children.length === 0")
    teach_and_change(address, mesh)
    until("return document.querySelectorAll('#events .drift').length > 0")
    copied = run("""let text = ''; navigator.clipboard.writeText = async given => { text = given; };
      document.querySelector('[aria-label^=\"Copy as curl: State hash\"]').click(); return text;""")
    assert copied == f"curl 'http://{address}{mesh}/hash'", copied
    names = run("""return [...document.querySelectorAll('button, select, input, textarea, canvas[role]')].filter(each =>
      !each.closest('[hidden]') && !(each.ariaLabel || each.textContent.trim() || each.labels?.length ||
      each.getAttribute('aria-labelledby'))).map(each => each.outerHTML)""")
    assert not names, ("a screen reader has no name for", names)


def teach_and_change(address, mesh):
    """One picture of each label, until the mesh knows them; then other labels."""
    def learn(shift, count):
        samples = [{"inputs": {"pixels": [1.0 if i % 10 == label else 0.0 for i in range(64)]},
                    "targets": {"digit": (label + shift) % 10}} for label in range(10)]
        for _ in range(count):
            assert ask(address, "POST", f"{mesh}/learn", {"samples": samples})[0] == 200
    learn(0, 60)
    learn(5, 10)


def check_generate(address, run, until):
    """The text of the box: it comes in parts, is the one that the route answers, and ends where it is told to."""
    until("return !document.getElementById('generate').hidden")
    run("""const set = (id, value) => { document.getElementById(id).value = value; };
      set('prompt', 'Once upon a time'); set('max-tokens', '200'); set('temperature', '0'); set('top-p', '1'); set('seed', '7');
      window.parts_ = 0;
      new MutationObserver(all => { window.parts_ += all.length; }).observe(document.getElementById('generated'), {childList: true});
      document.querySelector('#generate form').requestSubmit();""")
    until("return document.getElementById('generated').textContent && document.getElementById('generate-stop').disabled")
    wanted = json.loads(ask(address, "POST", "/v1/completions", {
        "model": "story", "prompt": "Once upon a time", "max_tokens": 200, "temperature": 0, "seed": 7})[2])["choices"][0]["text"]
    assert run("return document.getElementById('generated').textContent") == wanted
    assert run("return window.parts_") > 20, "it came as a whole"
    assert "ms to the first" in run("return document.getElementById('generate-speed').textContent")
    # A busy machine may get all parts in one piece, before anybody could press the button: here they come one by one.
    run("""const real = window.fetch;
      window.fetch = async (path, given) => {
        const answer = await real(path, given);
        const slow = new TransformStream({async transform(bytes, to) {
          for (let at = 0; at < bytes.length; at += 64) {
            given.signal?.throwIfAborted();
            to.enqueue(bytes.slice(at, at + 64));
            await new Promise(go => setTimeout(go, 10));
          }
        }});
        return path === '/v1/completions' ? new Response(answer.body.pipeThrough(slow), answer) : answer;
      };
      document.getElementById('max-tokens').value = '400'; document.querySelector('#generate form').requestSubmit();
      new MutationObserver(() => document.getElementById('generate-stop').click())
        .observe(document.getElementById('generated'), {childList: true});""")
    until("return document.getElementById('generate-stop').disabled")
    assert len(run("return document.getElementById('generated').textContent")) < len(wanted), "it was not stopped"


def check_page(address, driver, folder):
    """The page in Chromium, told by the WebDriver protocol."""
    process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True)
    session = ""
    try:
        port = next(int(line.split()[-1].rstrip(".")) for line in process.stdout if "successfully on port" in line)
        to = f"127.0.0.1:{port}"
        options = {"args": [*FLAGS, f"--user-data-dir={folder}/profile"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        wanted = {"capabilities": {"alwaysMatch": wanted}}
        session = "/session/" + json.loads(ask(to, "POST", "/session", wanted)[2])["value"]["sessionId"]

        def run(script):
            answer = ask(to, "POST", f"{session}/execute/sync", {"script": script, "args": []})
            return json.loads(answer[2])["value"]

        def until(script):
            end = time.monotonic() + 30
            while not run(script):
                assert time.monotonic() < end, (script, run("return document.body.innerText"))
                time.sleep(0.1)

        ask(to, "POST", f"{session}/url", {"url": f"http://{address}/#wave"})
        until("return document.getElementById('link').textContent === 'live' && document.body.dataset.tick === '3'")
        run("[...document.querySelectorAll('#transport button')].find(b => b.textContent === 'Step').click()")
        until("return document.body.dataset.tick === '4'")
        ask(to, "POST", f"{session}/url", {"url": f"http://{address}/#digits"})
        until("return !document.getElementById('draw').hidden")
        if STORIES.is_dir():
            check_generate(address, run, until)
        else:
            assert run("return document.getElementById('generate').hidden"), "no language model is served"
        check_actions(address, run, until, lambda keys: type_keys(to, session, keys))
        log = json.loads(ask(to, "POST", f"{session}/se/log", {"type": "browser"})[2])["value"]
        assert not [each for each in log if each["level"] == "SEVERE"], log
        assert base64.b64decode(json.loads(ask(to, "GET", f"{session}/screenshot")[2])["value"])[:4] == b"\x89PNG"
    finally:
        if session:
            ask(to, "DELETE", session)  # else the browser stays
        process.terminate()
        process.communicate()


def main():
    driver = shutil.which("chromedriver") if shutil.which("chromium") else None
    with tempfile.TemporaryDirectory() as folder:
        network = pathlib.Path(folder) / "wave.json"
        network.write_text(json.dumps(WAVE))
        words = [sys.argv[1], "serve", "--json", "--port", "0", "--threads", "1", network,
                 ROOT / "examples/digits.json", *([f"story={STORIES}"] if STORIES.is_dir() else [])]
        with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True) as server:
            try:
                address = json.loads(server.stdout.readline())["listen"][0]
                check_files(address)
                check_cells(address)
                if driver:
                    check_page(address, driver, folder)
            finally:
                server.kill()
    print("page as described" if driver else "files as described; skipped: no Chromium and driver")
    return 0 if driver else 77


if __name__ == "__main__":
    sys.exit(main())
