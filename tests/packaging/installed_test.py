#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An install into a temporary prefix: each file is there, and does what its reader wants of it.

  installed_test.py --build DIR [--cmake CMAKE] [--compiler CXX] [--sanitize LIST]
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ARGUMENTS = None
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def run(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = pathlib.Path(cls.folder.name) / "opt" / "weft"
        done = run(ARGUMENTS.cmake, "--install", ARGUMENTS.build, "--prefix", cls.prefix)
        assert done.returncode == 0, done.stdout + done.stderr
        cls.documents = cls.prefix / "share/doc/weft"
        cls.program = cls.prefix / "bin/weft"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, done, expected=0):
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done

    def only(self, pattern):
        found = sorted(self.prefix.glob(pattern))
        self.assertEqual(len(found), 1, pattern)
        return found[0]

    def needs(self, tool):
        if not shutil.which(tool):
            self.skipTest(f"no {tool} here")

    def test_manual_pages_are_there_and_name_every_option(self):
        pages = self.prefix / "share/man/man1"
        verbs = re.findall(r"^  (\w+) ", run(self.program, "--help").stdout.partition("Subcommands:")[2], re.M)
        self.assertIn("run", verbs)
        for verb in verbs:
            text = (pages / f"weft-{verb}.1").read_text().replace("\\-", "-")
            for option in re.findall(r"^  (?:-\w,)?(--[\w-]+)", run(self.program, verb, "--help").stdout, re.M):
                self.assertIn(f"\\fB{option}\\fR", text, verb)
        self.assertTrue((pages / "weft-session-detach.1").exists())

    def test_manual_pages_render_without_a_warning(self):
        self.needs("man")
        for page in sorted((self.prefix / "share/man/man1").glob("*.1")):
            done = self.check(run("man", "--warnings", "-E", "UTF-8", "-l", page, env=os.environ | {"MANWIDTH": "80"}))
            self.assertEqual(done.stderr, "", page.name)
            self.assertIn("EXIT STATUS", done.stdout)
            if shutil.which("mandoc"):
                # STYLE messages are about mdoc, which these pages are not written in.
                told = run("mandoc", "-T", "lint", "-W", "all", page).stdout
                self.assertNotIn("date", told, page.name)
                self.check(run("mandoc", "-T", "lint", "-W", "error", page))

    def test_manual_pages_bear_the_date_of_the_source(self):
        newest = re.search(r"^## [0-9.]+, (\d+) \w+ (\d{4})$", (self.documents / "CHANGELOG.md").read_text(), re.M)
        with tempfile.TemporaryDirectory() as folder:
            for epoch, date in (("86400", "1970-01-02"), ("", rf"{newest[2]}-\d\d-{int(newest[1]):02}")):
                self.check(run(sys.executable, "-B", SOURCE / "tools/make_cli_pages.py", self.program, folder,
                               env=os.environ | {"SOURCE_DATE_EPOCH": epoch}))
                head = (pathlib.Path(folder) / "man/weft-run.1").read_text().partition("\n")[0]
                self.assertRegex(head, rf'^\.TH WEFT\\-RUN 1 "{date}" ')

    def test_bash_completes_verbs_options_and_values(self):
        script = self.prefix / "share/bash-completion/completions/weft"
        for words, expected in [(["weft", "insp"], "inspect"), (["weft", "run", "n.json", "--sched"], "--schedule"),
                                (["weft", "run", "n.json", "--schedule", "pipe"], "pipelined"),
                                (["weft", "session", "det"], "detach"), (["weft", "bench", "kern"], "kernels"),
                                (["weft", "session", "detach", "--out"], "--output")]:
            line = " ".join(f"'{word}'" for word in words)
            done = self.check(run("bash", "--norc", "-c",
                                  f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _weft; "
                                  'echo "${COMPREPLY[@]}"'))
            self.assertEqual((done.stdout.strip(), done.stderr), (expected, ""), words)

    def test_bash_completes_files_where_an_option_takes_one(self):
        script = self.prefix / "share/bash-completion/completions/weft"
        with tempfile.TemporaryDirectory() as here:
            (pathlib.Path(here) / "rows.csv").write_text("")
            done = self.check(run("bash", "--norc", "-c", f"source {script}; COMP_WORDS=(weft run --data ro); "
                                  'COMP_CWORD=3; _weft; echo "${COMPREPLY[@]}"', cwd=here))
        self.assertEqual(done.stdout.strip(), "rows.csv")

    def test_zsh_loads_the_completion(self):
        self.needs("zsh")
        folder = self.prefix / "share/zsh/site-functions"
        self.check(run("zsh", "-n", folder / "_weft"))
        done = self.check(run("zsh", "-f", "-c", f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; "
                              "print -r -- $_comps[weft]"))
        self.assertEqual((done.stdout.strip(), done.stderr), ("_weft", ""))

    def test_fish_completes_verbs_and_values(self):
        self.needs("fish")
        script = self.prefix / "share/fish/vendor_completions.d/weft.fish"
        self.check(run("fish", "--no-execute", script))
        for words, expected in [("weft insp", "inspect"), ("weft run --schedule pipe", "pipelined"),
                                ("weft session det", "detach")]:
            with tempfile.TemporaryDirectory() as home:
                done = self.check(run("fish", "-c", f"source {script}; complete -C '{words}'",
                                      env=os.environ | {"HOME": home, "XDG_CONFIG_HOME": home}))
            self.assertEqual(done.stdout.split("\t")[0].strip(), expected, words)

    def test_pkg_config_builds_a_program(self):
        self.needs("pkg-config")
        pc = self.only("lib*/**/weft.pc")
        found = run("pkg-config", "--cflags", "--libs", "weft", env=os.environ | {"PKG_CONFIG_PATH": str(pc.parent)})
        flags = self.check(found).stdout.split()
        self.assertIn(f"-I{self.prefix}/include", [os.path.normpath(f) if f[:2] != "-I" else "-I" +
                                                       os.path.normpath(f[2:]) for f in flags])
        consumer = pathlib.Path(self.folder.name) / "consumer"
        sanitize = [f"-fsanitize={ARGUMENTS.sanitize}"] if ARGUMENTS.sanitize else []
        program = pathlib.Path(self.folder.name) / "consumer.cpp"
        text = (SOURCE / "examples/embedding/rollback.cpp").read_text()
        program.write_text(text.replace('"weft.hpp"', "<weft/weft.hpp>"))
        self.check(run(ARGUMENTS.compiler, "-std=c++20", *sanitize, program, "-o", consumer, *flags))
        self.assertEqual("the same bits\n", self.check(run(consumer)).stdout)

    def test_pkg_config_builds_a_c_program(self):
        self.needs("pkg-config")
        pc = self.only("lib*/**/weft-c.pc")
        found = run("pkg-config", "--cflags", "--libs", "weft-c", env=os.environ | {"PKG_CONFIG_PATH": str(pc.parent)})
        flags = self.check(found).stdout.split()
        library = self.only("lib*/**/libweft.so.0")
        for compiler, standard in (("cc", "c89"), (ARGUMENTS.compiler, "c++98")):
            self.needs(compiler)
            program = pathlib.Path(self.folder.name) / f"c_{standard}"
            text = (SOURCE / "examples/c/xor.c").read_text().replace("<weft.h>", "<weft/weft.h>")
            sanitize = [f"-fsanitize={ARGUMENTS.sanitize}"] if ARGUMENTS.sanitize else []
            self.check(subprocess.run([compiler, "-x", "c" if standard == "c89" else "c++", f"-std={standard}",
                                       "-pedantic-errors", *sanitize, "-", "-o", str(program), "-x", "none", *flags],
                                      input=text, capture_output=True, text=True))
            done = self.check(run(program, env=os.environ | {"LD_LIBRARY_PATH": str(library.parent)}))
            self.assertIn("1 xor 1 = 0\n", done.stdout)

    def test_the_unit_names_what_is_installed(self):
        unit = (self.prefix / "lib/systemd/system/weft@.service").read_text()
        self.assertNotIn("@WEFT", unit)
        command = re.search(r"^ExecStart=(\S+) run ", unit, re.M).group(1)
        self.assertEqual(pathlib.Path(command), self.program)
        self.assertTrue(os.access(command, os.X_OK))
        documents = re.search(r"^Documentation=(.*)$", unit, re.M).group(1).split()
        for document in documents:
            if document.startswith("man:"):
                self.assertTrue((self.prefix / "share/man/man1" / (document[4:-3] + ".1")).exists(), document)
            else:
                self.assertTrue(pathlib.Path(document.removeprefix("file://")).exists(), document)
        self.assertGreater(len(documents), 1)

    def test_systemd_takes_the_unit(self):
        self.needs("systemd-analyze")
        unit = self.prefix / "lib/systemd/system/weft@.service"
        done = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit)
        self.assertTrue(done.returncode == 0 and "weft@" not in done.stderr, done.stderr)

    def test_logrotate_takes_its_file(self):
        path = self.prefix / "etc/logrotate.d/weft"
        self.assertIn("/var/log/weft/", path.read_text())
        if shutil.which("logrotate"):
            self.check(run("logrotate", "--debug", path))

    def test_documents_point_at_what_is_installed(self):
        texts = [text for text in self.documents.rglob("*.md") if "decisions" not in text.parts]
        self.assertGreater(len(texts), 15)
        for text in texts:
            for target in LINK.findall(re.sub(r"```.*?```", "", text.read_text(), flags=re.DOTALL)):
                with self.subTest(text=str(text.relative_to(self.documents)), target=target):
                    self.assertTrue((text.parent / target).exists())

    def test_examples_and_schema_are_usable(self):
        network = self.documents / "examples/digits.json"
        self.check(run(self.program, "run", network, "--max-samples", "64", "--quiet"))
        schema = json.loads((self.prefix / "share/weft/network.schema.json").read_text())
        self.assertEqual(schema["$schema"], "https://json-schema.org/draft/2020-12/schema")
        self.assertIn("options_dense", schema["$defs"])


class Staged(unittest.TestCase):
    def test_destdir_is_no_part_of_a_path(self):
        with tempfile.TemporaryDirectory() as stage:
            done = run(ARGUMENTS.cmake, "--install", ARGUMENTS.build, "--prefix", "/usr",
                       env=os.environ | {"DESTDIR": stage})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            unit = (pathlib.Path(stage) / "usr/lib/systemd/system/weft@.service").read_text()
            self.assertIn("ExecStart=/usr/bin/weft run ", unit)
            self.assertIn("file:///usr/share/doc/weft/cli.md", unit)
            self.assertTrue((pathlib.Path(stage) / "etc/logrotate.d/weft").exists())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--sanitize", default="")
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
