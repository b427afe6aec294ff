#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages of packaging/make_debs.py.

  debs_test.py --build DIR [--cmake CMAKE]            what is in them
  debs_test.py --build DIR [--cmake CMAKE] --chroot   installed, used and purged in a clean Debian of debootstrap's; what
                                                      lintian says, where it is
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
ARGUMENTS = None


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def build_packages(folder):
    told = run(sys.executable, "-B", SOURCE / "packaging/make_debs.py", ARGUMENTS.build, folder, "--compression", "gzip",
               "--cmake", ARGUMENTS.cmake)
    return {pathlib.Path(line).name.partition("_")[0]: pathlib.Path(line) for line in told.splitlines()}


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.packages = build_packages(cls.folder.name)
        cls.files = {name: [line.split(None, 5)[5] for line in run("dpkg-deb", "-c", path).splitlines()
                            if not line.startswith("d")] for name, path in cls.packages.items()}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def field(self, package, name):
        return run("dpkg-deb", "-f", self.packages[package], name).strip()

    def control(self, package, name):
        return run("dpkg-deb", "--info", self.packages[package], name)

    def test_there_are_four_and_no_file_is_in_two(self):
        self.assertEqual(sorted(self.packages), ["libweft-dev", "libweft0", "python3-weft", "weft"])
        every = [file for files in self.files.values() for file in files]
        self.assertEqual(len(every), len(set(every)))

    def test_the_program_brings_manual_pages_completions_and_units(self):
        for file in ("usr/bin/weft", "usr/share/man/man1/weft.1.gz", "usr/share/man/man1/weft-run.1.gz",
                     "usr/share/bash-completion/completions/weft", "usr/share/zsh/site-functions/_weft",
                     "usr/share/fish/vendor_completions.d/weft.fish", "lib/systemd/system/weft@.service",
                     "usr/share/weft/network.schema.json", "usr/share/doc/weft/examples/digits.json"):
            self.assertIn("./" + file, self.files["weft"])
        self.assertEqual(self.control("weft", "conffiles"), "/etc/logrotate.d/weft\n")

    def test_libraries_that_are_linked_are_depended_on(self):
        for package in ("weft", "libweft0"):
            for library in ("libc6", "libtbb12", "libzstd1", "libicu72"):
                self.assertRegex(self.field(package, "Depends"), rf"\b{library}\b")
        self.assertNotIn("libweft0", self.field("weft", "Depends"))

    def test_headers_and_python_want_the_library_of_their_version(self):
        for package in ("libweft-dev", "python3-weft"):
            self.assertIn(f"libweft0 (= {self.field('libweft0', 'Version')})", self.field(package, "Depends"))

    def test_headers_want_what_pkg_config_requires(self):
        with tempfile.TemporaryDirectory() as folder:
            run("dpkg-deb", "-x", self.packages["libweft-dev"], folder)
            wanted = re.search(r"^Requires: (.*)$", (pathlib.Path(folder) / "usr/lib/pkgconfig/weft.pc").read_text(), re.M)
        homes = {"spdlog": "libspdlog-dev", "nlohmann_json": "nlohmann-json3-dev", "tbb": "libtbb-dev",
                 "hwloc": "libhwloc-dev", "libzstd": "libzstd-dev", "zlib": "zlib1g-dev", "libhwy": "libhwy-dev",
                 "libxxhash": "libxxhash-dev", "icu-i18n": "libicu-dev", "icu-uc": "libicu-dev"}
        for name in wanted[1].split():
            self.assertIn(homes[name], self.field("libweft-dev", "Depends"))

    def test_symbols_are_those_of_the_library_with_their_version(self):
        with tempfile.TemporaryDirectory() as folder:
            run("dpkg-deb", "-x", self.packages["libweft0"], folder)
            library = next(pathlib.Path(folder).glob("usr/lib/libweft.so.0.*"))
            there = set(re.findall(r" [TA] (\w+)@@?(\w+)$", run("nm", "-D", "--with-symbol-versions", library), re.M))
        listed = set(re.findall(r"^ (\w+)@(\w+) ", self.control("libweft0", "symbols"), re.M))
        self.assertEqual({pair for pair in listed if not pair[0].startswith("WEFT_")},
                         {pair for pair in there if not pair[0].startswith("WEFT_")})


# Run in the new Debian, as root. The program learns, the three languages reach it, and it shows its pages.
USE = r"""
set -eu
cd /tmp
digits=/usr/share/doc/weft/examples/digits.json
weft run $digits --max-samples 256 --quiet --json | tail -n 1 > run.json
test -r /usr/share/man/man1/weft-run.1.gz
bash -c 'source /usr/share/bash-completion/completions/weft; COMP_WORDS=(weft insp); COMP_CWORD=1; _weft
         test "${COMPREPLY[0]}" = inspect'
python3 - <<END
import json, weft
mesh = weft.Mesh({"weft": 2, "inputs": {"x": [2]}, "chain": [{"type": "dense", "out": 2}]})
mesh.tick(3)
print("python", mesh.state_hash())
END
cc -std=c89 -x c - -o consumer $(pkg-config --cflags --libs weft-c) < xor.c
./consumer
weft --version
"""


# In a mount namespace of its own, so that nothing stays mounted, however the command ends.
ENTER = 'mount -t proc proc "$0/proc" && mount -t sysfs sysfs "$0/sys" && exec chroot "$0" "$@"'


def in_chroot(root, *command, **options):
    return run("unshare", "-m", "sh", "-c", ENTER, root, *command, **options,
               env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root",
                    "LC_ALL": "C.UTF-8"})


def files_below(root):
    """Files that packages bring, without the state, logs and caches of apt and dpkg."""
    own = ("var/", "tmp/", "proc/", "sys/", "dev/", "run/", "etc/ld.so.cache")
    names = (str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir() or path.is_symlink())
    return {name for name in names if not name.startswith(own)}


def try_in_chroot(root, packages):
    suite = "bookworm"
    run("debootstrap", "--variant=minbase", suite, root, os.environ.get("WEFT_DEBIAN_MIRROR", "http://deb.debian.org/debian"))
    in_chroot(root, "apt-get", "-qq", "update")
    before = files_below(root)
    copies = []
    for path in packages.values():
        shutil.copy(path, root / "tmp")
        copies.append(f"/tmp/{path.name}")
    install = ("apt-get", "-qq", "-y", "--no-install-recommends", "install")
    in_chroot(root, *install, *copies)
    shipped = {name for package in packages for name in in_chroot(root, "dpkg", "-L", package).split()}
    in_chroot(root, *install, "gcc", "libc6-dev", "pkg-config")
    text = (SOURCE / "examples/c/xor.c").read_text().replace("<weft.h>", "<weft/weft.h>")
    (root / "tmp/xor.c").write_text(text)
    told = in_chroot(root, "sh", "-c", USE)
    here = run(ARGUMENTS.build / "bin/weft", "run", SOURCE / "examples/digits.json", "--max-samples", "256", "--quiet",
               "--json").splitlines()[-1]
    expected = re.search(r'"state_hash":"(\w+)"', here)[1]
    assert expected in (root / "tmp/run.json").read_text(), f"{expected} is not in {(root / 'tmp/run.json').read_text()}"
    assert "1 xor 1 = 0\n" in told and re.search(r"^python \w{32}$", told, re.M), told
    in_chroot(root, "apt-get", "-qq", "-y", "purge", *packages)
    in_chroot(root, "apt-get", "-qq", "-y", "--purge", "autoremove")
    after = files_below(root)
    left = sorted(name for name in after - before if "weft" in name or "/" + name in shipped)
    assert not left, f"purged, and still there: {left}"
    assert not before - after, f"purging took what was there before: {sorted(before - after)[:5]}"
    print(f"installed, used and purged in a clean {suite}; {len(shipped)} paths, state hash {expected}")


def ask_lintian(packages):
    told = subprocess.run(["lintian", "--allow-root", *map(str, packages.values())], capture_output=True, text=True)
    tags = [line for line in told.stdout.splitlines() if line[:2] in ("E:", "W:")]
    assert not tags, "\n".join(tags)
    print("lintian: no error, no warning")


def chroot():
    for tool in ("debootstrap", "dpkg-shlibdeps"):
        if not shutil.which(tool):
            print(f"no {tool} here (tools/setup.sh packages)")
            return SKIPPED
    if os.geteuid() != 0:
        print("debootstrap needs root")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        packages = build_packages(pathlib.Path(folder) / "debs")
        if shutil.which("lintian"):
            ask_lintian(packages)
        try_in_chroot(pathlib.Path(folder) / "root", packages)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--chroot", action="store_true")
    ARGUMENTS, rest = parser.parse_known_args()
    if ARGUMENTS.chroot:
        sys.exit(chroot())
    if not shutil.which("dpkg-shlibdeps"):
        print("no dpkg-shlibdeps here (tools/setup.sh packages)")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *rest])
