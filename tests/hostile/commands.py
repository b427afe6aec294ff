# SPDX-License-Identifier: Apache-2.0
"""weft send and the socket that takes commands: commands that are none, floods of them, runs that are stopped or killed."""
import signal, socket, threading, time
from harness import *
from top import Agent, line, wait_for


@case("a place that is none:", ("",), ("0,0",), ("0,0,0,0,0",), ("-1,0,0",), ("0,0,4294967296",), ("[0,0,0",), ("0,0,0]",), ("0;0;0",), ("\u0660,0,0",),
      ("99,0,0",))
def place(weft, folder, cell):
    with Agent(weft, folder) as agent:
        out = weft("send", agent.directory, "reset", cell)
        expect(out.exit in (2, 3) and out.err.count("\n") == 1 and out.out == "", "not refused in one line", (), out)
        expect(agent.process.poll() is None, "the agent is gone")


@case("a rate that is none:", ("nan",), ("inf",), ("-0.1",), ("1e99",), ("0x1",), ("1,5",), ("1e-3e",), (" ",), ("1001",))
def rate(weft, folder, value):
    with Agent(weft, folder) as agent:
        out = weft("send", agent.directory, "rate", "*", value)
        expect(out.exit == 2 and out.err.count("\n") == 1 and out.out == "", "not refused in one line", (), out)


@case("a file of values that is none:", ("empty", b""), ("binary", bytes(range(256))), ("nan", b"1 nan"), ("text", b"one two"), ("too large", b"9" * (5 << 20)),
      ("too few", b"1 2 3"), ("beyond float", b"1e39 " * 640))
def values(weft, folder, name, content):
    write(f"{folder}/v", content)
    with Agent(weft, folder) as agent:
        out = weft("send", agent.directory, "weights", "0,0,0", "--values", f"{folder}/v")
        expect(out.exit == 3 and out.err.count("\n") == 1, "not refused in one line", (), out)
        expect(agent.process.poll() is None, "the agent is gone")


@case("a directory where nobody runs")
def nobody(weft, folder):
    weft.refuses(3, "--state", "send", folder, "reset", "*")
    weft.refuses(3, "none", "send", f"{folder}/none", "reset", "*")


@case("a run that is stopped is told with its number, and the command is executed once it goes on")
def stopped(weft, folder):
    with Agent(weft, folder) as agent:
        agent.process.send_signal(signal.SIGSTOP)
        out = weft("send", agent.directory, "reset", "*")
        expect(out.exit == 5 and "stopped" in out.err and str(agent.process.pid) in out.err, "not told", (), out)
        agent.process.send_signal(signal.SIGCONT)
        out = weft("send", agent.directory, "reset", "*")
        expect(out.exit == 0, "not executed", (), out)


@case("eight at once send two hundred commands, and the run replays")
def flood(weft, folder):
    with Agent(weft, folder) as agent:
        answers = []

        def send(n):
            with agent.client() as client:
                for i in range(25):
                    command = ['{"command":"reset"}', '{"command":"probe","cell":[0,0,0]}', '{"command":"period","ticks":%d}' % (1 + i % 3),
                             '{"command":"rate","rate":0.01}', '{"command":"disable","cell":[0,0,0]}', '{"command":"enable"}'][(n + i) % 6]
                    client.sendall(b'{"send":%s}\n' % command.encode())
                    answers.append(json.loads(line(client)))

        threads = [threading.Thread(target=send, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expect(len(answers) == 200 and all("tick" in answer for answer in answers), f"{[a for a in answers if 'tick' not in a][:3]}")
        ticks = [answer["tick"] for answer in answers]
        expect(max(ticks) > min(ticks), "no tick passed")
        agent.process.send_signal(signal.SIGTERM)
        expect(agent.process.wait(20) == 143, "it did not end")
    out = weft("replay", agent.directory, "--verify", limit=60)
    expect(out.exit == 0, "the run does not replay", (), out)


@case("clients that send a command and hang up cost nothing")
def hang_up(weft, folder):
    with Agent(weft, folder) as agent:
        for n in range(60):
            client = agent.client()
            client.sendall([b'{"send":{"command":"reset"}}\n', b'{"send":{"command":"re', b'{"send":' + b"[" * 3000 + b"\n", b'{"send":{"command":"reset"}}\n' * 20][n % 4])
            client.close()
        out = weft("send", agent.directory, "probe", "0,0,0")
        expect(out.exit == 0, "commands are not taken any more", (), out)
        expect(agent.process.poll() is None, "the agent is gone")


@case("killed with commands under way, it goes on and replays:", (0.0,), (0.01,), (0.03,))
def killed(weft, folder, pause):
    with Agent(weft, folder) as agent:
        senders = [weft.spawn("send", agent.directory, "rate", "*", "0.001", "--json") for _ in range(4)]
        time.sleep(pause)
        agent.process.kill()
        for sender in senders:
            sender.communicate()
            expect(sender.returncode in (0, 3, 5), f"exit {sender.returncode}")
    with Agent(weft, folder) as again:
        # The note of the one before is there until it has its own socket.
        wait_for(lambda: weft("send", again.directory, "reset", "*").exit == 0, "it does not go on")
    out = weft("replay", agent.directory, "--verify", limit=60)
    expect(out.exit == 0, "the run does not replay", (), out)


# Its answer to a command, and the exit code.
EVIL = [("nothing", b"", 5), ("no JSON", b"hello\n", 3), ("an array", b"[1]\n", 3), ("another object", b'{"a":1}\n', 3), ("a refusal of no known code", b'{"refused":"no","code":"x"}\n', 5),
        ("what a terminal obeys", b'{"refused":"\\u001b[2J","code":"unsupported"}\n', 3), ("values that are none", b'{"command":"probe","values":["a",null]}\n', 0)]


@case("a server that answers a command with:", *EVIL)
def server(weft, folder, _, answer, exit):
    path = f"{folder}/s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path), listening.listen(8), listening.settimeout(20)

        def serve():
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096), connection.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        out = weft("send", path, "probe", "0,0,0", limit=15)
        serving.join()
        expect(out.exit == exit, f"exit {out.exit}, not {exit}", (), out)
        expect("\x1b" not in out.err + out.out, "a terminal would obey", (), out)
