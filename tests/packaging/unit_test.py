# SPDX-License-Identifier: Apache-2.0
"""The systemd unit: what systemd says of it, and that it gives weft only flags that weft has."""
import os, re, shutil, subprocess, sys, tempfile

source, program = sys.argv[1], sys.argv[2]
unit = open(os.path.join(source, "packaging/weft@.service.in"), encoding="utf-8").read()
wanted = ["Type=notify", "WatchdogSec=", "Restart=on-failure", "SuccessExitStatus=143", "NoNewPrivileges=yes",
          "ProtectSystem=strict", "StateDirectory=weft/%i", "ExecReload=/bin/kill -HUP $MAINPID"]
missing = [each for each in wanted if not re.search("^" + re.escape(each), unit, re.M)]
assert not missing, missing
command = re.search(r"^ExecStart=@WEFT_BINDIR@/weft run (.*)$", unit, re.M).group(1)
text = subprocess.run([program, "run", "--help"], capture_output=True, text=True, check=True).stdout
for flag in re.findall(r"--[a-z-]+", command):
    assert re.search(re.escape(flag) + r"[ ,]", text), f"weft run has no {flag}"
if not shutil.which("systemd-analyze"):
    print("no systemd-analyze here")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    # Without a program systemd reports that alone.
    path = os.path.join(folder, "weft@.service")
    open(path, "w", encoding="utf-8").write(unit.replace("@WEFT_BINDIR@/weft", os.path.realpath(program)))
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                               path], capture_output=True, text=True)
    assert verified.returncode == 0 and "weft@" not in verified.stderr, verified.stderr
