#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packaging/weft@.service under a systemd of its own: start, keep-alive messages, reload, stop, a stopped process, kill
-9, refusals.

    sudo tools/check_systemd.py [path of the program weft]     (default: build/release/bin/weft; some 20 s)

A container is booted whose root is this machine's with a layer in memory over it; nothing outside is touched, and no
unit of this machine's is started. Exit code 77, saying why, where that cannot be done: it takes root, systemd-nspawn
(Debian's systemd-container) and overlayfs.
"""
import json, os, re, shutil, signal, subprocess, sys, tempfile, time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
UNITS = "/etc/weft-check"  # in the container: pid 1 looks nowhere else
SYSTEM = "/usr/lib/systemd/system"
BORROWED = ["systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket", "shutdown.target",
            "umount.target", "final.target", "halt.target", "systemd-halt.service", "local-fs.target"]
MADE = {"sysinit.target": "Wants=systemd-journald.service", "basic.target": "Requires=sysinit.target\nAfter=sysinit.target",
        "default.target": "Requires=basic.target\nAfter=basic.target"}
TIMEOUT = 30  # seconds, for whatever should take one
WATCHDOG = 2


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


class Container:
    """A machine of its own whose pid 1 is systemd."""

    def __init__(self, work, program):
        root = os.path.join(work, "root")
        for folder in ("upper", "work", "root"):
            os.mkdir(os.path.join(work, folder))
        options = f"lowerdir=/,upperdir={work}/upper,workdir={work}/work"
        mounted = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, root], capture_output=True, text=True)
        if mounted.returncode != 0:
            skip("no layer over / : " + mounted.stderr.strip())
        self.root, self.log = root, os.path.join(work, "log")
        os.makedirs(root + UNITS)
        os.makedirs(root + "/etc/weft", exist_ok=True)
        for unit in BORROWED:
            shutil.copy(os.path.join(SYSTEM, unit), root + UNITS)
        for unit, text in MADE.items():
            self.write(f"{UNITS}/{unit}", f"[Unit]\n{text}\n")
        with open(os.path.join(SOURCE, "packaging/weft@.service.in"), encoding="utf-8") as unit:
            self.write(UNITS + "/weft@.service", unit.read().replace("@WEFT_BINDIR@", "/usr/bin")
                       .replace("@WEFT_DOCDIR@", "/usr/share/doc/weft"))
        shutil.copy(program, root + "/usr/bin/weft")
        shutil.copy(os.path.join(SOURCE, "examples/data/digits.csv.gz"), root + "/etc/weft")
        # If systemd runs the machine, it makes a scope; otherwise the container uses this one's.
        here = [] if os.path.isdir("/run/systemd/system") else ["--keep-unit"]
        self.groups = [os.path.join("/sys/fs/cgroup", hierarchy, group) for hierarchy in ("", "systemd", "unified")
                       for group in ("payload", "supervisor")]  # nspawn leaves them behind
        self.groups = [group for group in self.groups if here and not os.path.exists(group)]
        self.process = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--directory=" + root, "--machine=weft-check-" + str(os.getpid()), "--register=no",
             *here, "--boot", "--setenv=SYSTEMD_UNIT_PATH=" + UNITS], stdin=subprocess.DEVNULL, stdout=open(self.log, "wb"),
            stderr=subprocess.STDOUT)
        try:
            wait("a systemd", lambda: self.process.poll() is not None or self.is_up(), AssertionError)
        except AssertionError:
            self.end()
        if self.process.poll() is not None:
            skip("no container boots here: " + open(self.log, errors="replace").read()[-1000:])

    def leader(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as children:
            return children.read().split()[0]

    def is_up(self):
        try:
            return self("systemctl", "is-active", "default.target", check=False) == "active\n"
        except (IndexError, OSError):
            return False

    def __call__(self, *command, check=True):
        """The output of a command in there."""
        enter = ["nsenter", "--target", self.leader(), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root",
                 "--wd=/", "env", "-i", "PATH=/usr/bin:/usr/sbin:/bin", "SYSTEMD_UNIT_PATH=" + UNITS, "SYSTEMD_PAGER="]
        ran = subprocess.run([*enter, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert not check or ran.returncode == 0, f"{command}: exit code {ran.returncode}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.root + path), exist_ok=True)
        with open(self.root + path, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, path):
        return self("cat", path)

    def end(self):
        for _ in range(2):  # nspawn halts it at the first, and ends it at the second
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
                for group in filter(os.path.exists, self.groups):
                    for folder, _, _ in os.walk(group, topdown=False):
                        os.rmdir(folder)
                return
            except subprocess.TimeoutExpired:
                print(open(self.log, errors="replace").read()[-1000:])
        raise RuntimeError(f"container of process {self.process.pid} does not end")


class Agent:
    """The unit of one agent in a container."""

    def __init__(self, container, name, **changes):
        self.container, self.name, self.unit = container, name, "weft@" + name
        network = json.load(open(os.path.join(SOURCE, "examples/digits.json"), encoding="utf-8"))
        network["stream"].update(csv="/etc/weft/digits.csv.gz", epochs=1000000)
        network["stream"].update(changes)
        container.write(f"/etc/weft/{name}.json", json.dumps(network))

    def systemctl(self, verb, *more, check=True):
        return self.container("systemctl", verb, *more, self.unit, check=check)

    def show(self, key):
        return self.systemctl("show", "--value", "--property=" + key).strip()

    def top(self):
        return json.loads(self.container("weft", "top", "/var/lib/weft/" + self.name, "--once", "--json"))

    def log(self):
        return self.container.read(f"/var/log/weft/{self.name}/weft.log")

    def stood(self, what):
        """The ticks that the log names after `what`."""
        return [int(tick) for tick in re.findall(what + r", at tick (\d+)", self.log())]

    def found(self):
        """Of each start that found an agent: tick of the checkpoint, records replayed, tick."""
        line = r"found in .*: checkpoint of tick (\d+), (\d+) records replayed in .* up to tick (\d+),"
        return [tuple(map(int, each)) for each in re.findall(line, self.log())]


def wait(what, is_so, error=RuntimeError):
    until = time.monotonic() + TIMEOUT
    while not is_so():
        if time.monotonic() > until:
            raise error(f"waited {TIMEOUT} s for {what}")
        time.sleep(0.05)


def say(text):
    print(text, flush=True)


def check_start(agent):
    began = time.monotonic()
    agent.systemctl("start")  # returns at READY=1
    assert agent.show("ActiveState") == "active" and agent.show("Type") == "notify"
    say(f"started, ready after {time.monotonic() - began:.2f} s")
    wait("a status line with a rate", lambda: re.search(r'Status: "running, .*, ticks [1-9][\d,]* \(.*/s\)', agent.systemctl("status")))
    say(re.search(r"Status: .*", agent.systemctl("status")).group())
    owner = agent.container("stat", "-L", "-c", "%u %a", "/var/lib/weft/" + agent.name).split()
    assert int(owner[0]) >= 61184 and owner[1] == "700", owner  # a dynamic user's
    security = agent.container("systemd-analyze", "security", "--no-pager", agent.unit, check=False)
    exposure = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", security).group(1))
    assert exposure < 2, security
    say(f"systemd-analyze security: exposure {exposure}")


def check_heartbeats(agent):
    pid = agent.show("MainPID")
    time.sleep(2.5 * WATCHDOG)
    assert agent.show("MainPID") == pid and agent.show("NRestarts") == "0", agent.systemctl("status")
    say(f"alive for {2.5 * WATCHDOG:.0f} s under a watchdog of {WATCHDOG} s")


def check_reload(agent):
    place = f"/var/log/weft/{agent.name}/weft.log"
    agent.container("mv", place, place + ".1")
    agent.systemctl("reload")
    wait("a new log", lambda: "log opened anew" in agent.container("cat", place, check=False))
    assert "running" in agent.container.read(place + ".1")
    say("reloaded, log opened anew")


def check_comes_back(agent, how, result):
    """Ended by a signal, it is started again where it was acknowledged or later."""
    before, restarts, starts = agent.top(), int(agent.show("NRestarts")), len(agent.found())
    began = time.monotonic()
    agent.systemctl("kill", "--kill-whom=main", "--signal=" + how)
    wait("a restart", lambda: int(agent.show("NRestarts")) > restarts and agent.show("ActiveState") == "active")
    checkpoint, records, tick = agent.found()[starts]
    acknowledged = before["journal"]["acknowledged"]
    assert checkpoint <= tick and tick >= acknowledged > 0, (checkpoint, tick, before)
    assert result in agent.container("journalctl", "--no-pager", "--unit=" + agent.unit), result
    say(f"{how}: running again after {time.monotonic() - began:.1f} s at tick {tick}, acknowledged was {acknowledged} "
        f"(checkpoint of tick {checkpoint}, {records} records replayed)")


def check_stop(agent):
    starts = len(agent.found())
    began = time.monotonic()
    agent.systemctl("stop")
    took = time.monotonic() - began
    assert took < 5, f"stopped after {took} s"  # docs/cli.md, Signals
    assert agent.show("ActiveState") == "inactive" and agent.show("Result") == "success", agent.systemctl("status", check=False)
    stood = agent.stood("stopping")[-1]
    home = "/var/lib/weft/" + agent.name
    agent.container("weft", "replay", home, "--verify")
    agent.systemctl("start")
    checkpoint, records, tick = agent.found()[starts]
    assert (checkpoint, records, tick) == (stood, 0, stood), (stood, checkpoint, records, tick)
    agent.systemctl("stop")
    say(f"stopped after {took:.2f} s with a checkpoint of tick {stood}; a replay verifies; started again there")


def check_end(agent):
    agent.systemctl("start", check=False)
    wait("its end", lambda: agent.show("ActiveState") == "inactive")
    assert agent.show("Result") == "success" and agent.show("NRestarts") == "0", agent.systemctl("status", check=False)
    say("one that came to its end rests")


def check_refused(agent, code):
    agent.systemctl("start", check=False)
    wait("a refusal", lambda: agent.show("ActiveState") == "failed")
    assert (agent.show("ExecMainStatus"), agent.show("NRestarts")) == (code, "0"), agent.systemctl("status", check=False)
    say(f"refused with {code}, not started again")


def check(container):
    digits = Agent(container, "digits")
    verified = container("systemd-analyze", "verify", "--man=no", UNITS + "/weft@.service")
    assert not verified, verified
    container.write(f"{UNITS}/weft@.service.d/check.conf",
                    f"[Service]\nWatchdogSec={WATCHDOG}s\nRestartSec=100ms\nStandardOutput=journal\nStandardError=journal\n")
    container("systemctl", "daemon-reload")
    check_start(digits)
    check_heartbeats(digits)
    check_comes_back(digits, "SIGSTOP", "Watchdog timeout")
    check_comes_back(digits, "SIGKILL", "status=9/KILL")
    check_reload(digits)
    # Another one beside it, which ends by itself.
    check_end(Agent(container, "short", epochs=1))
    assert digits.show("ActiveState") == "active"
    check_refused(Agent(container, "wrong", epochs="many"), "3")
    check_stop(digits)


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(SOURCE, "build/release/bin/weft"))
    if os.geteuid() != 0:
        skip("not root")
    for needed in ("systemd-nspawn", "unshare", "nsenter", "systemd-analyze"):
        if not shutil.which(needed):
            skip(f"no {needed} here (Debian: systemd-container, util-linux)")
    assert os.access(program, os.X_OK), f"{program}: no program; build the target weft"
    if "WEFT_CHECK_UNSHARED" not in os.environ:
        # Mounts of its own: they are gone with the last process.
        environment = dict(os.environ, WEFT_CHECK_UNSHARED="1")
        command = ["unshare", "--mount", "--propagation=private", sys.executable, "-B", os.path.abspath(__file__), program]
        sys.exit(subprocess.run(command, env=environment).returncode)
    with tempfile.TemporaryDirectory(prefix="weft-systemd-") as work:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", work], check=True)
        try:
            if not os.path.isdir("/run/systemd/system"):
                subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)  # nspawn leaves files there
            container = Container(work, program)
            try:
                check(container)
            except BaseException:
                print(container("journalctl", "--no-pager", check=False))
                raise
            finally:
                container.end()
        finally:
            subprocess.run(["umount", "--lazy", work], check=True)
    print("systemd: all passed")


if __name__ == "__main__":
    main()
