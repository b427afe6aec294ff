# SPDX-License-Identifier: Apache-2.0
"""Cases in tables, each with a folder and a time limit of its own, two at a time; skips are counted."""
import collections, concurrent.futures, json, os, random, re, resource, shutil, signal, subprocess, sys, tempfile, time

LIMIT = 30  # seconds for one run of the program; one that takes longer has hung
NOBODY = 12345  # a user who owns nothing here
CASES = []
Outcome = collections.namedtuple("Outcome", "exit out err")
# All that a case may be skipped for, and how many cases of which area at most.
REASONS = {"not root": {"damage": 5, "limits": 2, "outputs": 8}, "no devices can be made here": {"outputs": 4}}


class Skip(Exception):
    """The case cannot run here, for one of REASONS."""

    def __init__(self, reason):
        super().__init__(reason)
        assert reason in REASONS, reason


def case(name, *rows):
    """Registers a function of (weft, folder, *row) once for each row; a row's first word completes its name."""

    def register(function):
        for row in rows or [()]:
            CASES.append((f"{name} {row[0]!r}" if row else name, function, row))
        return function

    return register


class Weft:
    """The program: called with arguments it gives exit code (128 + signal when killed), stdout and stderr."""

    def __init__(self, program):
        self.program = program

    def is_sanitized(self):
        """True where a sanitizer keeps memory and stack of its own."""
        program = read(self.program)
        return any(name in program for name in (b"__asan_init", b"__tsan_init", b"__ubsan_handle"))

    def spawn(self, *arguments, env=None, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
              before=None, user=None, cwd=None):
        def prepare():
            if user is not None:
                os.setgroups([]), os.setgid(user), os.setuid(user)
            if before:
                before()

        environment = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "HWLOC_", "NOTIFY"))}
        environment.update(env or {})
        return subprocess.Popen([self.program, *map(str, arguments)], env=environment, stdin=stdin, stdout=stdout,
                                stderr=stderr, cwd=cwd, preexec_fn=prepare if before or user is not None else None,
                                start_new_session=True)

    def __call__(self, *arguments, limit=LIMIT, **more):
        with self.spawn(*arguments, **more) as process:
            try:
                out, err = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise AssertionError(f"still running after {limit} s: {shown(arguments)}")
        code = process.returncode
        return Outcome(128 - code if code < 0 else code, text(out), text(err))

    def refuses(self, exit, names, *arguments, **more):
        """One line on stderr that holds each of `names`, nothing on stdout, and that exit code."""
        outcome = self(*arguments, **more)
        expect(outcome.exit == exit, f"exit {outcome.exit}, not {exit}", arguments, outcome)
        expect(outcome.err.startswith("weft: error: ") and outcome.err.count("\n") == 1, "not one line", arguments, outcome)
        for name in [names] if isinstance(names, str) else names:
            expect(name in outcome.err, f"{name!r} is not named", arguments, outcome)
        expect(outcome.out == "", "something on stdout", arguments, outcome)
        return outcome


def text(bytes):
    return (bytes or b"").decode("utf-8", "surrogateescape")


def shown(arguments):
    return " ".join(repr(str(a))[:80] for a in arguments)


def expect(holds, words, arguments=(), outcome=None):
    if not holds:
        raise AssertionError(words + (f": weft {shown(arguments)}" if arguments else "") +
                             (f"\n  exit {outcome.exit}\n  stdout {outcome.out[-400:]!r}\n  stderr {outcome.err[-600:]!r}"
                              if outcome else ""))


def no_crash(outcome, arguments=()):
    """Ended by itself, with an exit code that docs/cli.md has, and words where it failed."""
    expect(outcome.exit in (0, 1, 2, 3, 5), "not one of the exit codes", arguments, outcome)
    expect(outcome.exit == 0 or outcome.err.startswith("weft: "), "no word on it", arguments, outcome)


def as_root():
    if os.geteuid() != 0:
        raise Skip("not root")


def other_user(folder):
    """A user without files, to be given as `user`. Reading must be possible all the way to `folder`."""
    as_root()
    path = os.path.abspath(folder)
    while path != "/":
        if not os.stat(path).st_mode & 0o001:
            os.chmod(path, os.stat(path).st_mode | 0o055)
        path = os.path.dirname(path)
    return NOBODY


def network(**changes):
    """Two cells, four inputs, three classes."""
    spec = {"weft": 2, "name": "n", "grid": {"z": 1, "y": 1, "x": 2}, "inputs": {"x": [4]},
            "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 8, "activation": "tanh", "from": ["x"]},
                       {"at": [0, 0, 1, 0], "type": "dense", "out": 3}],
            "outputs": {"y": [0, 0, 1, 0]},
            "learning": {"rule": "backprop", "schedule": "settle", "optimizer": {"lr": 0.05}},
            "stream": {"csv": "g.csv", "input": "x", "output": "y"}}
    spec.update(changes)
    return spec


def table(rows=60, seed=1):
    """Three clusters, labelled; the same on each call."""
    draw = random.Random(seed)
    lines = []
    for row in range(rows):
        label = row % 3
        lines.append(",".join(f"{draw.gauss(1.0 if c == label else 0.0, 0.2):.4f}" for c in range(4)) + f",{label}")
    return "\n".join(lines) + "\n"


def write(path, content):
    with open(path, "wb") as out:
        out.write(content.encode() if isinstance(content, str) else content)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def prepare(folder, **changes):
    """N and its data in `folder`; the path of N."""
    write(f"{folder}/g.csv", table())
    return write(f"{folder}/n.json", json.dumps(network(**changes)))


def entity(weft, folder):
    """A trained model there."""
    path = f"{folder}/m.entity"
    outcome = weft("run", prepare(folder), "--quiet", "--save", path)
    expect(outcome.exit == 0, "no model", (), outcome)
    return path


def leftovers(folder):
    return [name for _, folders, files in os.walk(folder) for name in folders + files if name.endswith(".tmp")]


def state_hash(outcome):
    found = re.search(r"^state hash\s+([0-9a-f]{32})$", outcome.out, re.M)
    expect(found, "no state hash", (), outcome)
    return found[1]


def attempt(weft, entry):
    name, function, row = entry
    folder = tempfile.mkdtemp(prefix="weft-hostile-")
    begin = time.monotonic()
    try:
        function(weft, folder, *row)
        return name, "passed", "", time.monotonic() - begin
    except Skip as why:
        return name, "skipped", str(why), 0
    except Exception as failure:  # an assertion, or the case itself broke: both are to be seen
        return name, "failed", f"{type(failure).__name__}: {failure}", time.monotonic() - begin
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def skip_problems(area, skipped, is_root=None, is_ci=None):
    """More skips than are known of, in words; as root and under CI=true, any."""
    is_root = os.geteuid() == 0 if is_root is None else is_root
    is_ci = os.environ.get("CI") == "true" if is_ci is None else is_ci
    if is_root and is_ci and skipped:
        return [f"{number} cases skipped as root under CI: {reason}" for reason, number in skipped.items()]
    return [f"{number} cases skipped, at most {REASONS[reason].get(area, 0)}: {reason}" for reason, number in skipped.items()
            if number > REASONS[reason].get(area, 0)]


def in_slice(entries):
    """Every other case, in turn, where WEFT_TEST_SLICE names one (tools/test.sh) and WEFT_TEST_FULL=1 does not ask for
    all; all of them where a person runs an area by hand."""
    turn = os.environ.get("WEFT_TEST_SLICE")
    return entries if not turn or os.environ.get("WEFT_TEST_FULL") == "1" else entries[int(turn) % 2::2]


def main(area, weft, only):
    chosen = [entry for entry in CASES if only in entry[0]]
    if not only:
        chosen = in_slice(chosen)
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda entry: attempt(weft, entry), chosen))
    count = collections.Counter(result[1] for result in results)
    skipped = collections.Counter(words for _, outcome, words, _ in results if outcome == "skipped")
    problems = skip_problems(area, skipped)
    for name, outcome, words, seconds in results:
        if outcome != "passed":
            print(f"{outcome}: {area}: {name}: {words}")
        elif seconds > LIMIT / 2:
            print(f"slow: {area}: {name}: {seconds:.1f} s")
    for problem in problems:
        print(f"failed: {area}: {problem}")
    reasons = ", ".join(f"{number} {reason}" for reason, number in skipped.items())
    print(f"{area}: {len(results)} cases, {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped"
          f"{f' ({reasons})' if reasons else ''}, {time.monotonic() - begin:.1f} s")
    return 1 if count["failed"] or problems or not count["passed"] else 0
