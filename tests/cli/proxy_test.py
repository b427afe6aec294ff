# SPDX-License-Identifier: Apache-2.0
"""TLS by nginx, with the configuration of docs/server.md as it stands there. Skipped (77) where nginx, openssl or curl
are not there.

  tests/cli/proxy_test.py WEFT
"""
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

WEFT = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parents[2]
NETWORK = {"weft": 2, "name": "small", "grid": {"z": 1, "y": 1, "x": 1, "layers": 1}, "inputs": {"x": [4]},
           "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 3, "from": ["x"]}], "outputs": {"y": [0, 0, 0, 0]}}


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


def configuration(folder, port, weft):
    """The block of the page, within what a process of its own needs."""
    page = (ROOT / "docs/server.md").read_text()
    block = re.search(r"## TLS\n.*?```nginx\n(.*?)```", page, re.S).group(1)
    for there, here in (("/run/weft.sock", weft), ("listen 443", f"listen 127.0.0.1:{port}"),
                        ("/etc/ssl/weft.crt", f"{folder}/crt"), ("/etc/ssl/weft.key", f"{folder}/key"),
                        ("weft.example", "localhost")):
        assert there in block, there
        block = block.replace(there, str(here))
    paths = "".join(f"{each}_temp_path {folder}/{each};" for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    return f"pid {folder}/pid; error_log {folder}/log; events {{}} http {{ access_log off; {paths}\n{block}}}\n"


def curl(folder, *words):
    done = subprocess.run(["curl", "-sS", "--cacert", folder / "crt", "--max-time", "20", *map(str, words)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(folder, port):
    base = f"https://localhost:{port}"
    bearer = ("-H", "Authorization: Bearer the-key")
    assert json.loads(curl(folder, f"{base}/health")) == {"status": "ok"}
    assert curl(folder, "-o", "/dev/null", "-w", "%{http_code}", f"{base}/api/v1") == "401"
    answer = curl(folder, *bearer, "-H", "Content-Type: application/json", "-d", '{"inputs": {"x": [[1, 2, 3, 4]]}}',
                  f"{base}/api/v1/meshes/small/forward")
    assert len(json.loads(answer)["outputs"]["y"][0]) == 3, answer
    # Events come one by one, not when a buffer is full or the answer at its end.
    events = subprocess.Popen(["curl", "-sSN", "--cacert", folder / "crt", *bearer,
                               f"{base}/api/v1/meshes/small/events?topics=statistics&every=0.1"],
                              stdout=subprocess.PIPE, text=True)
    try:
        names = [line for line in (events.stdout.readline() for _ in range(20)) if line.startswith("event: statistics")]
        assert len(names) >= 2, names
    finally:
        events.terminate()
        events.communicate()
    oldest = subprocess.run(["curl", "-sS", "--cacert", folder / "crt", "--tls-max", "1.1", f"{base}/health"],
                            capture_output=True)
    assert oldest.returncode != 0, "TLS 1.1 is spoken"


def main():
    for program in ("nginx", "openssl", "curl"):
        if not shutil.which(program) and not pathlib.Path("/usr/sbin", program).exists():
            print(f"skipped: no {program}")
            return 77
    with tempfile.TemporaryDirectory() as scratch:
        folder, port = pathlib.Path(scratch), free_port()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-keyout",
                        folder / "key", "-out", folder / "crt"], check=True, capture_output=True)
        (folder / "small.json").write_text(json.dumps(NETWORK))
        (folder / "keys").write_text("the-key\n")
        (folder / "conf").write_text(configuration(folder, port, folder / "weft.sock"))
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        server = subprocess.Popen([WEFT, "serve", "--json", "--threads", "1", "--listen", f"unix:{folder}/weft.sock",
                                   "--api-key-file", folder / "keys", folder / "small.json"], stdout=subprocess.PIPE, text=True)
        proxy = None
        try:
            assert server.stdout.readline()
            (folder / "weft.sock").chmod(0o666)  # nginx' workers are another user where root starts it
            folder.chmod(0o755)
            proxy = subprocess.Popen([nginx, "-c", folder / "conf", "-g", "daemon off;"], stderr=subprocess.PIPE, text=True)
            until = time.monotonic() + 20
            while True:
                assert proxy.poll() is None and time.monotonic() < until, (folder / "log").read_text()
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.02)
            check(folder, port)
        finally:
            if proxy:
                proxy.terminate()
                proxy.communicate()
            server.kill()
            server.communicate()
    print("TLS 1.2 and later, answers and events through nginx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
