#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Misuse of the C ABI under valgrind: no byte is read or written that is not the program's. Skipped (77) without it.

  valgrind_test.py CAPI_TESTS
"""
import os
import shutil
import subprocess
import sys

if not shutil.which("valgrind"):
    print("no valgrind here")
    sys.exit(77)
done = subprocess.run(["valgrind", "-q", "--error-exitcode=9", "--fair-sched=yes", sys.argv[1], "--gtest_brief=1",
                       "--gtest_filter=Misuse.*:CEnvironment.Refuses*:CLearnerFile.Is*"], capture_output=True, text=True,
                      env={**os.environ, "HWLOC_COMPONENTS": "-x86"}, check=False)
print(done.stdout + done.stderr)
sys.exit(done.returncode or int("PASSED" not in done.stdout))
