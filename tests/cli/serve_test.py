# SPDX-License-Identifier: Apache-2.0
"""`weft serve`, run as a program: what was acknowledged survives kill -9; signals, sockets, keys, the service manager.

  tests/cli/serve_test.py WEFT
"""
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

WEFT = sys.argv.pop(1)
STORIES = pathlib.Path(__file__).resolve().parents[3] / "shared/data/stories260K/derived"
NETWORK = {"weft": 2, "name": "small", "grid": {"z": 1, "y": 1, "x": 2, "layers": 1}, "inputs": {"x": [4]},
           "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 8, "activation": "tanh", "from": ["x"]},
                      {"at": [0, 0, 1, 0], "type": "dense", "out": 3}],
           "outputs": {"y": [0, 0, 1, 0]},
           "learning": {"rule": "backprop", "loss": "cross_entropy", "optimizer": {"type": "sgd", "lr": 0.1}}}
SAMPLE = {"samples": [{"inputs": {"x": [1, 0, 0.5, -1]}, "targets": {"y": 2}}], "wait": "durable"}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.path)


class Server:
    """A server that is ready; killed at the end where nobody stopped it."""

    def __init__(self, *words, env=None, pass_fds=()):
        self.process = subprocess.Popen([WEFT, "serve", "--json", "--threads", "1", *map(str, words)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})}, pass_fds=pass_fds)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.address = json.loads(line)["listen"][0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def connection(self):
        if self.address.startswith("unix:"):
            return UnixConnection(self.address[5:])
        host, port = self.address.rsplit(":", 1)
        return http.client.HTTPConnection(host, int(port), timeout=30)

    def ask(self, method, path, body=None, headers=None, connection=None):
        with contextlib.closing(connection or self.connection()) as made:
            made.request(method, path, json.dumps(body) if body is not None else None,
                         {"Content-Type": "application/json", **(headers or {})})
            answer = made.getresponse()
            return answer.status, json.loads(answer.read() or b"null")

    def end(self, sent=signal.SIGTERM):
        self.process.send_signal(sent)
        self.process.communicate(timeout=60)
        return self.process.returncode


def refused(*words):
    done = subprocess.run([WEFT, "serve", *words], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


class Serve(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.network = self.folder / "small.json"
        self.network.write_text(json.dumps(NETWORK))

    def test_what_was_acknowledged_survives_a_kill(self):
        state = self.folder / "state"
        for _ in range(3):
            acknowledged = []
            with Server(self.network, "--port", 0, "--state", state) as server:
                begun = server.ask("GET", "/api/v1/meshes/small")[1]["ticks"]

                def learn():
                    with contextlib.suppress(OSError, http.client.HTTPException):
                        while True:
                            status, answer = server.ask("POST", "/api/v1/meshes/small/learn", SAMPLE)
                            self.assertEqual(status, 200)
                            acknowledged.append(answer["tick"])

                threads = [threading.Thread(target=learn) for _ in range(4)]
                for thread in threads:
                    thread.start()
                while len(acknowledged) < 20:
                    threads[0].join(0.01)
                server.process.kill()
                for thread in threads:
                    thread.join()
            with Server(self.network, "--port", 0, "--state", state) as server:
                found = server.ask("GET", "/api/v1/meshes/small")[1]["ticks"]
                self.assertGreaterEqual(found, max(acknowledged))
                self.assertGreater(found, begun)
                self.assertEqual(server.end(), 143)
        done = subprocess.run([WEFT, "replay", str(state / "small"), "--verify"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_model_directory_alone_is_served(self):
        models = self.folder / "models"
        models.mkdir()
        (models / "first.json").write_text(json.dumps(NETWORK))
        (models / "notes.txt").write_text("no model")
        (models / "other.json").write_text("[1, 2]")
        (models / "broken.json").write_text('{"weft": 2,')
        (models / "my net.json").write_text(json.dumps(NETWORK))
        (models / ".upload-abc").write_text("half of a file")
        with Server(self.network, "--port", 0, "--model-dir", models) as server:
            self.assertEqual([each["name"] for each in server.ask("GET", "/api/v1/meshes")[1]["meshes"]], ["small"])
            for path, name in (("/entity", "second.entity"), ("/sessions/0/state", "session.entity")):
                with contextlib.closing(server.connection()) as made:
                    made.request("GET", "/api/v1/meshes/small" + path)
                    (models / name).write_bytes(made.getresponse().read())
        with Server("--port", 0, "--model-dir", models) as server:
            self.assertEqual([each["name"] for each in server.ask("GET", "/api/v1/meshes")[1]["meshes"]],
                             ["first", "second"])
            status, made = server.ask("POST", "/api/v1/meshes", {"name": "third", "file": "second.entity"})
            self.assertEqual(status, 201, made)
        (models / "second.json").write_text(json.dumps(NETWORK))
        code, told = refused("--port", "0", "--model-dir", str(models))
        self.assertNotEqual(code, 0)
        self.assertIn("second.entity", told)
        self.assertIn("second.json", told)
        code, told = refused("--port", "0", "--model-dir", str(models / "none"))
        self.assertNotEqual(code, 0)
        self.assertIn("none", told)

    def test_parts_without_the_first_are_told(self):
        models = self.folder / "parts"
        models.mkdir()
        keys = b"".join(struct.pack("<Q", len(key)) + key + struct.pack("<IH", 2, value)
                        for key, value in ((b"split.no", 1), (b"split.count", 2)))
        part = b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + keys
        (models / "m-00002-of-00002.gguf").write_bytes(part + bytes(-len(part) % 32))
        code, told = refused("--port", "0", "--model-dir", str(models))
        self.assertNotEqual(code, 0)
        self.assertIn("m-00001-of-00002.gguf", told)

    @unittest.skipUnless(STORIES.is_dir(), "no ../shared/data")
    def test_texts_that_were_written_down_are_written_again(self):
        log = self.folder / "texts.jsonl"

        def replay(*words):
            done = subprocess.run([WEFT, "replay", str(log), *map(str, words)], capture_output=True, text=True,
                                  timeout=120)
            return done.returncode, done.stdout, done.stderr

        with Server(f"tales={STORIES}", "--port", 0, "--context", 96, "--request-log", log, "--draft-lookup") as server:
            for body in ({"prompt": "Once upon a time", "max_tokens": 200, "n": 3, "temperature": 0.9},
                         {"prompt": "The cat", "max_tokens": 20, "stop": ".", "frequency_penalty": 0.5}):
                self.assertEqual(server.ask("POST", "/v1/completions", body)[0], 200)
            late = {"prompt": "The cat", "timeout": 0.001, "max_tokens": 90, "ignore_eos": True}
            self.assertEqual(server.ask("POST", "/v1/completions", late)[0], 504)
            self.assertEqual(server.end(), 143)
        self.assertEqual(len(log.read_text().splitlines()), 4)
        code, told, error = replay("--model", STORIES, "--threads", 2)
        self.assertEqual(code, 0, error)
        self.assertIn("all equal", told)
        lines = log.read_text().splitlines()
        changed = json.loads(lines[2])
        changed["ids"][1] ^= 1
        log.write_text("\n".join([lines[0], lines[1], json.dumps(changed), lines[3]]) + "\n" + lines[0][:40])
        code, told, error = replay("--model", STORIES, "--json")
        self.assertEqual(code, 1)
        result = json.loads(told.splitlines()[0])
        self.assertEqual((result["texts"], result["equal"], result["torn_bytes"]), (4, 3, 40))
        self.assertEqual(result["differences"][0]["line"], 3)
        self.assertTrue(result["differences"][0]["what"].startswith("token 1 is "))
        self.assertIn("1 of 4 texts differ", error)
        for words, why in (((), "--model"), (("--model", STORIES, "--verify"), "--verify"),
                           (("--model", self.network), "small.json")):
            code, told, error = replay(*words)
            self.assertNotEqual(code, 0)
            self.assertIn(why, error)
            self.assertEqual(told, "")
        log.write_text("no json\n")
        self.assertIn("texts.jsonl:1", replay("--model", STORIES)[2])

    def test_a_full_disk_is_told_and_others_go_on(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "weft-test", disk], capture_output=True).returncode:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], capture_output=True)
        with Server(self.network, "--port", 0, "--state", disk / "state") as server:
            status, _ = server.ask("POST", "/api/v1/meshes", {"name": "other", "network": NETWORK, "data_directory": False})
            self.assertEqual(status, 201)
            self.assertEqual(server.ask("POST", "/api/v1/meshes/small/learn", SAMPLE)[0], 200)
            with contextlib.suppress(OSError), open(disk / "ballast", "wb", buffering=0) as ballast:
                while True:
                    ballast.write(bytes(4096))
            many = {**SAMPLE, "samples": SAMPLE["samples"] * 500}  # more than what is left of a page
            status, answer = server.ask("POST", "/api/v1/meshes/small/learn", many)
            self.assertEqual((status, answer["error"]["code"]), (507, "not_kept"), answer)
            until = time.monotonic() + 20
            while not server.ask("GET", "/api/v1/meshes/small")[1]["journal"]["error"]:
                self.assertLess(time.monotonic(), until)
                time.sleep(0.01)
            self.assertGreater(self.metric(server, 'weft_journal_failures_total{mesh="small"}'), 0)
            self.assertGreater(self.metric(server, 'weft_journal_waiting_bytes{mesh="small"}'), 0)
            self.assertEqual(server.ask("POST", "/api/v1/meshes/other/learn", SAMPLE)[0], 200)
            self.assertEqual(server.ask("GET", "/health")[0], 200)
            (disk / "ballast").unlink()
            self.assertEqual(server.ask("POST", "/api/v1/meshes/small/learn", SAMPLE)[0], 200, "it catches up")
            kept = server.ask("GET", "/api/v1/meshes/small/hash")[1]
            server.process.kill()
        with Server("--port", 0, "--state", disk / "state") as server:
            self.assertEqual(server.ask("GET", "/api/v1/meshes/small/hash")[1], kept, "nothing was lost")

    def test_connections_come_first_where_that_is_allowed(self):
        def policies(server):
            tasks = pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()
            return [os.sched_getscheduler(int(each.name)) & ~os.SCHED_RESET_ON_FORK for each in tasks]

        may = subprocess.run([sys.executable, "-c", "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))"],
                             capture_output=True).returncode == 0
        with Server(self.network, "--port", 0) as server:
            self.assertEqual(self.metric(server, "weft_http_urgent_threads"), may)
            self.assertEqual(policies(server).count(os.SCHED_RR), may, "one thread, and none that it began")
        with Server(self.network, "--port", 0, "--io-priority", "normal") as server:
            self.assertEqual(self.metric(server, "weft_http_urgent_threads"), 0)
            self.assertEqual(policies(server).count(os.SCHED_RR), 0)

    def metric(self, server, name):
        connection = server.connection()
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        return float(next(line.split()[-1] for line in lines if line.startswith(name)))

    def test_a_stop_takes_a_checkpoint(self):
        state = self.folder / "state"
        with Server(self.network, "--port", 0, "--state", state) as server:
            server.ask("POST", "/api/v1/meshes/small/learn", SAMPLE)
            before = server.ask("GET", "/api/v1/meshes/small/hash")[1]
            self.assertEqual(server.end(signal.SIGINT), 130)
        with Server("--port", 0, "--state", state) as server:
            self.assertEqual(server.ask("GET", "/api/v1/meshes/small/hash")[1], before)

    def test_public_addresses_need_a_key(self):
        code, text = refused("--listen", "0.0.0.0:0")
        self.assertEqual(code, 2)
        self.assertIn("--api-key-file", text)
        keys = self.folder / "keys"
        keys.write_text("the-key\n")
        with Server("--listen", "0.0.0.0:0", "--api-key-file", keys) as server:
            server.address = server.address.replace("0.0.0.0", "127.0.0.1")
            self.assertEqual(server.ask("GET", "/api/v1")[0], 401)
            self.assertEqual(server.ask("GET", "/api/v1", headers={"Authorization": "Bearer the-key"})[0], 200)
            keys.write_text("another\n")
            server.process.send_signal(signal.SIGHUP)
            until = time.monotonic() + 20
            while time.monotonic() < until:
                if server.ask("GET", "/api/v1", headers={"Authorization": "Bearer another"})[0] == 200:
                    break
                time.sleep(0.01)
            self.assertEqual(server.ask("GET", "/api/v1", headers={"Authorization": "Bearer the-key"})[0], 401)
        self.assertEqual(refused("--listen", "somewhere")[0], 2)
        self.assertEqual(refused("--listen", "example.org:80", "--insecure")[0], 2)
        self.assertEqual(refused(str(self.folder / "none.entity"), "--port", "0")[0], 3)

    def test_serves_planetbridging_where_it_is_asked_to(self):
        payload = {"planet": "jax", "model_id": "m", "layers": [{"input_dim": 1, "output_dim": 1, "weights": [2]}]}
        for words, env in ((("--bridge-root", self.folder / "root"), {}),
                           (("--bridge",), {"PLANETBRIDGING_ROOT": str(self.folder / "root")}),
                           (("--bridge",), {"PLANETBRIDGING_ROOT": "", "XDG_CACHE_HOME": str(self.folder / "cache")})):
            with Server("--port", 0, *words, env=env) as server:
                status, answer = server.ask("POST", "/api/v1/loom/stream", payload)
                self.assertEqual((status, answer["status"]), (200, "ok"))
                below = self.folder / ("cache/weft/bridge" if "XDG_CACHE_HOME" in env else "root")
                self.assertEqual(answer["entity_path"], str(below / "python/dense/models/jax/m/m.stream.entity"))
        with Server("--port", 0) as server:
            self.assertEqual(server.ask("POST", "/api/v1/loom/stream", payload)[0], 404)

    def test_a_unix_socket_is_its_owners_and_replaced_after_a_kill(self):
        path = self.folder / "weft.sock"
        with Server("--listen", f"unix:{path}") as server:
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
            self.assertEqual(server.ask("GET", "/health")[0], 200)
            self.assertEqual(refused("--listen", f"unix:{path}")[0], 5)
        self.assertTrue(path.exists())
        with Server("--listen", f"unix:{path}") as server:
            self.assertEqual(server.ask("GET", "/health")[0], 200)
            self.assertEqual(server.end(), 143)
        self.assertFalse(path.exists())

    def test_tells_the_service_manager_and_takes_its_socket(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, socket.socket() as listening:
            manager.bind(str(self.folder / "notify"))
            manager.settimeout(30)
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            # As systemd does between fork and exec: the socket is descriptor 3, and LISTEN_PID the process.
            script = ('import os, sys; os.dup2(int(sys.argv[1]), 3); os.set_inheritable(3, True); '
                      'os.environ["LISTEN_PID"] = str(os.getpid()); os.execv(sys.argv[2], sys.argv[2:])')
            process = subprocess.Popen([sys.executable, "-c", script, str(listening.fileno()), WEFT, "serve", "--json",
                                        "--insecure", str(self.network)], stdout=subprocess.PIPE, text=True,
                                       pass_fds=[listening.fileno()],
                                       env={**os.environ, "LISTEN_FDS": "1", "NOTIFY_SOCKET": str(self.folder / "notify")})
            self.assertIn(b"READY=1", manager.recv(4096))
            ready = json.loads(process.stdout.readline())
            self.assertEqual(ready["listen"], ["%s:%d" % listening.getsockname()])
            connection = http.client.HTTPConnection(*listening.getsockname(), timeout=30)
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()
            process.terminate()
            self.assertIn(b"STOPPING=1", manager.recv(4096))
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 143)


if __name__ == "__main__":
    unittest.main()
