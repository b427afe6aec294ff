# SPDX-License-Identifier: Apache-2.0
"""The systemd units: what systemd says of them, and that they give weft only flags that weft has."""
import os, re, shutil, subprocess, sys, tempfile

source, program = sys.argv[1], sys.argv[2]
UNITS = {
    "weft@.service": ("run", ["Type=notify", "WatchdogSec=", "Restart=on-failure", "SuccessExitStatus=143",
                              "NoNewPrivileges=yes", "ProtectSystem=strict", "StateDirectory=weft/%i",
                              "ExecReload=/bin/kill -HUP $MAINPID"]),
    "weft-serve.service": ("serve", ["Type=notify", "WatchdogSec=", "Restart=on-failure", "SuccessExitStatus=143",
                                     "NoNewPrivileges=yes", "ProtectSystem=strict", "StateDirectory=weft-serve",
                                     "ExecReload=/bin/kill -HUP $MAINPID"])}


def check(name, verb, wanted):
    unit = open(os.path.join(source, f"packaging/{name}.in"), encoding="utf-8").read()
    missing = [each for each in wanted if not re.search("^" + re.escape(each), unit, re.M)]
    assert not missing, (name, missing)
    command = re.search(rf"^ExecStart=@WEFT_BINDIR@/weft {verb} (.*)$", unit, re.M).group(1)
    text = subprocess.run([program, verb, "--help"], capture_output=True, text=True, check=True).stdout
    for flag in re.findall(r"--[a-z-]+", command):
        assert re.search(re.escape(flag) + r"[ ,]", text), f"weft {verb} has no {flag}"
    if not shutil.which("systemd-analyze"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        # Without a program systemd reports that alone.
        path = os.path.join(folder, name)
        open(path, "w", encoding="utf-8").write(unit.replace("@WEFT_BINDIR@/weft", os.path.realpath(program)))
        verified = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path],
                                  capture_output=True, text=True)
        assert verified.returncode == 0 and name.split(".")[0] not in verified.stderr, verified.stderr
    return True


if not all([check(name, *how) for name, how in UNITS.items()]):
    print("no systemd-analyze here")
    sys.exit(77)
