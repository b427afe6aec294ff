# SPDX-License-Identifier: Apache-2.0
"""Corners of HTTP by curl, and the metrics by Prometheus' own checker. Skipped (77) where curl is not.

  tests/cli/curl_test.py WEFT
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
JSON = ["-H", "Content-Type: application/json"]


def curl(address, path, *words, text=None):
    """Status, headers (lower case) and body of the last answer."""
    done = subprocess.run(["curl", "-s", "-i", "--path-as-is", "--max-time", "20", *words, f"http://{address}{path}"],
                          capture_output=True, input=text, check=False)
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 100"):
        head, _, body = body.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    return int(lines[0].split()[1]) if lines[0] else 0, headers, body


def check(address):
    mesh = "/api/v1/meshes/digits"
    row = json.dumps({"inputs": {"pixels": [[0] * 64]}}).encode()
    expected = [
        # what, path, words, status
        ("a probe", "/health", [], 200),
        ("HEAD is GET without a body", mesh, ["-I"], 200),
        ("another method", mesh, ["-X", "PATCH"], 405),
        ("no such path", "/api/v1/none", [], 404),
        ("a slash at the end", "/health/", [], 404),
        ("a path with dots", "/assets/../../etc/passwd", [], 404),
        ("a path of another file", "/assets/%2e%2e%2fpage.css", [], 404),
        ("another host's name", "/health", ["-H", "Host: evil.example"], 403),
        ("a form", mesh + "/forward", ["-d", "a=1"], 415),
        ("a compressed body", mesh + "/forward", [*JSON, "-H", "Content-Encoding: gzip", "-d", "{}"], 415),
        ("a long head", "/health", ["-H", "X-Long: " + "a" * 20000], 431),
        ("an expectation", mesh + "/forward", [*JSON, "-H", "Expect: coffee", "-d", "{}"], 417),
        ("no JSON", mesh + "/forward", [*JSON, "-d", "{"], 400),
        ("JSON that is deep", mesh + "/forward", [*JSON, "-d", "[" * 100 + "]" * 100], 400),
        ("both lengths", mesh + "/forward", [*JSON, "-H", "Transfer-Encoding: chunked", "-H", "Content-Length: 2", "-d", "{}"], 400),
        ("HTTP/1.0", "/health", ["--http1.0"], 200),
        ("chunks", mesh + "/forward", [*JSON, "-H", "Transfer-Encoding: chunked", "-d", row.decode()], 200),
        ("100-continue", mesh + "/forward", [*JSON, "-H", "Expect: 100-continue", "-d", row.decode()], 200),
    ]
    for what, path, words, status in expected:
        got, headers, body = curl(address, path, *words)
        assert got == status, (what, got, body[:200])
        assert "x-request-id" in headers and headers["x-content-type-options"] == "nosniff", what
        if status >= 400 and "-I" not in words:
            assert json.loads(body)["error"]["message"], what
        if status == 405:
            assert "GET" in headers["allow"], headers
    with tempfile.NamedTemporaryFile() as large:
        large.write(b"a" * (9 << 20))
        large.flush()
        assert curl(address, mesh + "/forward", *JSON, "--data-binary", f"@{large.name}")[0] == 413
    preflight = ["-X", "OPTIONS", "-H", "Origin: http://page.example", "-H", "Access-Control-Request-Method: POST"]
    status, headers, _ = curl(address, mesh, *preflight)
    assert status == 204 and headers["access-control-allow-origin"] == "http://page.example", headers
    other = curl(address, mesh, *[each.replace("page.example", "evil.example") for each in preflight])
    assert "access-control-allow-origin" not in other[1], other
    assert curl(address, "/health", "-H", "x-request-id: mine-1")[1]["x-request-id"] == "mine-1"
    first = curl(address, mesh + "/control", *JSON, "-H", "Idempotency-Key: k", "-d", '{"command": "probe", "cell": [0,0,0]}')
    assert first[0] in (200, 202, 400, 422), first


def check_metrics(address):
    promtool = shutil.which("promtool")
    if not promtool:
        return "metrics not checked: no promtool"
    _, _, body = curl(address, "/metrics")
    done = subprocess.run([promtool, "check", "metrics"], input=body, capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return "promtool has nothing to say"


def main():
    if not shutil.which("curl"):
        print("skipped: curl is not there")
        return 77
    words = [sys.argv[1], "serve", "--json", "--port", "0", "--threads", "1", "--cors-origin", "http://page.example",
             str(ROOT / "examples/digits.json")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = json.loads(server.stdout.readline())["listen"][0]
            check(address)
            print(check_metrics(address))
        finally:
            server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
