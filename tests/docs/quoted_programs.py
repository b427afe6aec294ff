# SPDX-License-Identifier: Apache-2.0
"""Programs that a document quotes, built by the tests and run here."""
import pathlib
import subprocess


def run(program, *words, expected=0):
    """Text that it prints: to stdout, or where it is expected to fail, to stderr."""
    done = subprocess.run([program, *words], capture_output=True, text=True)
    assert done.returncode == expected, f"{program}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if expected == 0 else done.stderr


def quoted(source, document, folder, prefix, programs):
    """The programs by name, each of them quoted by the document from a file of the folder."""
    text = (pathlib.Path(source) / document).read_text()
    found = {pathlib.Path(program).name.removeprefix(prefix): program for program in programs}
    for name in found:
        assert f"quote: {folder}/{name}." in text, f"{document} does not quote {name} of {folder}"
    return found
