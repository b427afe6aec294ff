# SPDX-License-Identifier: Apache-2.0
"""weft top and the socket that it asks: servers that stall or lie, clients that flood or sleep, sockets that vanish."""
import os, shutil, signal, socket, subprocess, threading, time
from harness import *


class Agent:
    """A run without an end, with a data directory, while the block lasts."""

    def __init__(self, weft, folder):
        self.directory = f"{folder}/agent"
        self.process = weft.spawn("run", prepare(folder), "--epochs", 1 << 30, "--quiet", "--state", self.directory)

    def __enter__(self):
        wait_for(lambda: os.path.exists(f"{self.directory}/top.path"), "no socket")
        self.socket = read(f"{self.directory}/top.path").decode().strip()
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.communicate()

    def client(self):
        made = socket.socket(socket.AF_UNIX)
        made.connect(self.socket)  # waits while the queue is full; with a timeout set it would not
        made.settimeout(15)
        return made


def wait_for(happens, words, seconds=10):
    end = time.monotonic() + seconds
    while not happens():
        expect(time.monotonic() < end, words)
        time.sleep(0.02)


def line(client):
    got = b""
    while not got.endswith(b"\n"):
        more = client.recv(65536)
        if not more:
            break
        got += more
    return got.decode()


def looks(weft, agent):
    out = weft("top", agent.directory, "--once", limit=20)
    expect(out.exit == 0 and "samples" in out.out, "cannot look", (), out)


@case("a viewer too many is told why")
def refusal(weft, folder):
    with Agent(weft, folder) as agent:
        clients = [agent.client() for _ in range(8)]
        for client in clients:
            client.sendall(b'{"subscribe":0.1}\n'), line(client)
        for _ in range(5):
            out = weft("top", agent.directory, "--once")
            expect(out.exit == 5 and "8 clients are served already" in out.err, "not told", (), out)
        clients.pop().close()
        time.sleep(0.3)
        looks(weft, agent)


@case("clients that say nothing keep nobody out:", (8,), (30,))
def silent(weft, folder, count):
    with Agent(weft, folder) as agent:
        clients = [agent.client() for _ in range(count)]
        time.sleep(0.3)
        looks(weft, agent)
        expect(len(clients) == count, "")


@case("an agent that is stopped:", (["--once"],), ([],), (["--json"],))
def stopped(weft, folder, more):
    with Agent(weft, folder) as agent:
        agent.process.send_signal(signal.SIGSTOP)
        out = weft("top", agent.directory, *more)  # it gives up by itself, or the case's limit fails it
        expect(out.exit == 5 and "stopped" in out.err and str(agent.process.pid) in out.err, "not told", (), out)
        expect("no answer" not in out.err, "two reasons", (), out)
        agent.process.send_signal(signal.SIGCONT)
        looks(weft, agent)


@case("a socket that was deleted is made anew, and found")
def remade(weft, folder):
    with Agent(weft, folder) as agent:
        for _ in range(2):
            os.unlink(agent.socket)
            wait_for(lambda: os.path.exists(agent.socket), "not made anew")
            expect(os.lstat(agent.socket).st_mode & 0o777 == 0o600, "open to others")
            looks(weft, agent)


@case("another's file in the socket's place stays")
def taken(weft, folder):
    with Agent(weft, folder) as agent:
        os.unlink(agent.socket)
        write(agent.socket, "mine")
        time.sleep(2.5)
        expect(read(agent.socket) == b"mine", "overwritten")
        os.unlink(agent.socket)
        wait_for(lambda: os.path.exists(agent.socket), "not made anew")
        looks(weft, agent)


@case("--wait finds the agent that comes back")
def comes_back(weft, folder):
    with Agent(weft, folder) as agent:
        first = agent.process
        viewer = weft.spawn("top", agent.directory, "--json", "--wait", "--interval", "0.1")
        viewer.stdout.readline()
        first.kill(), first.communicate()
        with Agent(weft, folder) as again:
            pids = set()
            end = time.monotonic() + 15
            while again.process.pid not in pids and time.monotonic() < end:
                pids.add(json.loads(viewer.stdout.readline())["pid"])
            viewer.terminate(), viewer.communicate()
            expect(again.process.pid in pids, "the new one was not found")


@case("nobody there: the message names --state")
def nobody(weft, folder):
    weft.refuses(3, "--state", "top", folder)


@case("a killed agent's data directory is copied with what copies files")
def killed_directory(weft, folder):
    with Agent(weft, folder) as agent:
        pass
    shutil.copytree(agent.directory, f"{folder}/copy")
    expect(os.path.isfile(f"{agent.directory}/top.path"), "the note should be there: the agent was killed")
    out = weft("replay", f"{folder}/copy", "--verify", limit=60)
    expect(out.exit == 0, "the copy is no data directory", (), out)


@case("garbage, floods and half lines cost the agent nothing")
def garbage(weft, folder):
    with Agent(weft, folder) as agent:
        descriptors = lambda: len(os.listdir(f"/proc/{agent.process.pid}/fd"))
        looks(weft, agent)
        before = descriptors()
        draw = random.Random(1)
        for n in range(60):
            client = agent.client()
            try:
                client.sendall([b"\n" * 3000, b"x" * 100000, draw.randbytes(2000), b'{"get":"statistics"}\n' * 300, b'{"subscribe":NaN}\n',
                                b'{"subscribe":1e-9}\n', b'{"subscribe":0.1}', b"[" * 4000 + b"\n"][n % 8])
            except OSError:
                pass
            client.close()
        wait_for(lambda: descriptors() <= before, "descriptors are leaked")
        looks(weft, agent)
        expect(agent.process.poll() is None, "the agent is gone")


@case("300 connections that close at once")
def connections(weft, folder):
    with Agent(weft, folder) as agent:
        for _ in range(300):
            agent.client().close()
        looks(weft, agent)


# Its answer, the seconds that it stays, and the exit code.
EVIL = [("nothing", b"", 0, 5), ("silence", b"", 3600, 5), ("no JSON", b"hello\n", 0, 3), ("an array", b"[1]\n", 0, None), ("2 MiB without an end", b"x" * (2 << 20), 3600, 3),
        ("numbers beyond all", b'{"ticks":1e308,"samples":-1e308,"cells":{"a":1e308},"memory":{"resident":18446744073709551616}}\n', 3600, 3),
        ("deep", b"[" * 100000 + b"\n", 0, 3), ("null", b"null\n" * 5, 0, None), ("an error that is no text", b'{"error":[1,2]}\n', 0, 5)]


@case("a server that answers with:", *EVIL)
def server(weft, folder, _, answer, stays, exit):
    path = f"{folder}/s"
    done = threading.Event()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path), listening.listen(8), listening.settimeout(20)

        def serve():
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(20)
                try:
                    connection.recv(4096), connection.sendall(answer * 3)
                except OSError:
                    pass
                if stays:
                    done.wait(20)

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            out = weft("top", path, "--once", limit=15)
        finally:
            done.set(), serving.join()
        # JSON without figures may be shown as none, or refused.
        expect(out.exit == exit if exit else out.exit in (0, 3), f"exit {out.exit}, not {exit}", (), out)
        expect(out.exit == 0 or path in out.err, "the socket is not named", (), out)


@case("a server that does not even accept")
def no_accept(weft, folder):
    path = f"{folder}/s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path), listening.listen(0)
        waiting = []
        for _ in range(3):  # the queue is full
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            try:
                client.connect(path)
            except OSError:
                pass
            waiting.append(client)
        out = weft("top", path, "--once", limit=15)
        expect(out.exit == 5 and path in out.err, "not told", (), out)
