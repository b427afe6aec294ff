#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Debian packages of a build: weft (the program), libweft0 (the C ABI), libweft-dev, python3-weft.

  make_debs.py BUILD FOLDER [--compression xz|gzip|none] [--revision 1]      prints the packages' paths

Needs dpkg-dev. What is installed comes from `cmake --install`; what each package depends on, from dpkg-shlibdeps. The
same build gives the same bytes.
"""
import argparse
import datetime
import fnmatch
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
MAINTAINER = "The Weft authors <weft@packages.invalid>"
# Files of a package, in the order in which they are asked: a file goes to the first that names it.
FILES = {
    "libweft0": ["usr/lib/libweft.so.*"],
    "libweft-dev": ["usr/include/*", "usr/lib/*.a", "usr/lib/libweft.so", "usr/lib/cmake/*", "usr/lib/pkgconfig/*"],
    "python3-weft": ["usr/lib/python3/*"],
    "weft": ["usr/bin/*", "usr/share/*", "lib/systemd/*", "etc/*"],
}
# Headers and libraries of others that libweft-dev's headers, weft.pc and find_package(weft) name.
OTHERS_DEV = ("libtbb-dev, libhwloc-dev, nlohmann-json3-dev, libhwy-dev, libspdlog-dev, libxxhash-dev, libzstd-dev, "
              "zlib1g-dev, libicu-dev, prometheus-cpp-dev")
FIELDS = {
    "weft": {
        "Section": "science", "Depends": "{shlibs}", "Suggests": "mesa-vulkan-drivers",
        "Description": "neural networks that keep learning while they are used\n"
                       " A runtime for networks laid out as a grid of cells that fire on the same tick\n"
                       " and learn while they run, with the same bits on every thread count and\n"
                       " instruction set. This package has the program, its server, manual pages,\n"
                       " completions, documents and examples."},
    "libweft0": {
        "Section": "libs", "Depends": "{shlibs}",
        "Description": "neural networks that keep learning while they are used - C ABI\n"
                       " The shared library libweft.so: networks, meshes, learners, agents, snapshots\n"
                       " and language models for programs in C, Python, C# and others."},
    "libweft-dev": {
        "Section": "libdevel", "Depends": "libweft0 (= {version}), " + OTHERS_DEV,
        "Description": "neural networks that keep learning while they are used - headers\n"
                       " Headers of the C ABI and of the C++20 libraries, static libraries, and what\n"
                       " pkg-config and CMake need to find them."},
    "python3-weft": {
        "Section": "python", "Depends": "libweft0 (= {version}), python3 (>= 3.9), python3-numpy",
        "Suggests": "python3-sklearn",
        "Description": "neural networks that keep learning while they are used - Python\n"
                       " The module weft: meshes whose arrays numpy shares, learners one sample at a\n"
                       " time, estimators as scikit-learn has them."},
}
RELOAD = 'if [ -d /run/systemd/system ]; then\n  systemctl --system daemon-reload > /dev/null || true\nfi\n'
SCRIPTS = {
    "weft": {"postinst": RELOAD, "postrm": RELOAD,
             "prerm": 'if [ "$1" = remove ] && [ -d /run/systemd/system ]; then\n'
                      '  deb-systemd-invoke stop weft-serve.service "weft@*.service" > /dev/null || true\nfi\n'},
    "python3-weft": {"postinst": 'if [ "$1" = configure ] && command -v py3compile > /dev/null; then\n'
                                 '  py3compile -p python3-weft\nfi\n',
                     "prerm": 'if command -v py3clean > /dev/null; then\n  py3clean -p python3-weft\nfi\n'},
}
# Tags of lintian that stay: upstream's list of changes is a document here, the libraries are those of a prefix,
# programs for other programs have --help alone, and no Debian bug asked for a package.
OVERRIDES = {
    "weft": ["wrong-name-for-upstream-changelog", "no-manual-page [usr/bin/loom-stream]",
             "no-manual-page [usr/bin/weft-bench-gpu]"],
    "libweft-dev": ["pkg-config-unavailable-for-cross-compilation"],
}
COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: weft

Files: *
Copyright: 2026 The Weft authors
License: Apache-2.0
 On Debian systems the licence's text is in /usr/share/common-licenses/Apache-2.0.
"""


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def released():
    """Version of the project, and the day of its newest release or SOURCE_DATE_EPOCH."""
    version = re.search(r"project\(weft VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        return version, datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc)
    day = re.search(r"^## [0-9.]+, (\d+ \w+ \d{4})$", (SOURCE / "CHANGELOG.md").read_text(), re.M)[1]
    return version, datetime.datetime.strptime(day + " +0000", "%d %B %Y %z")


def packed(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, 9, mtime=0))


def stage(build, cmake, root, version):
    """Everything that is installed, as Debian wants it: stripped, manual pages packed, units where systemd looks."""
    run(cmake, "--install", build, "--prefix", "/usr", env=os.environ | {"DESTDIR": str(root)})
    (root / "lib").mkdir()
    shutil.move(root / "usr/lib/systemd", root / "lib/systemd")
    (root / "usr/share/doc/weft/LICENSE").unlink()  # stands in `copyright`
    for page in (root / "usr/share/man").rglob("*.1"):
        packed(page.with_suffix(".1.gz"), page.read_bytes())
        page.unlink()
    module = root / "usr/lib/python3/dist-packages"
    shutil.copytree(SOURCE / "bindings/python/weft", module / "weft", ignore=shutil.ignore_patterns("__pycache__"))
    about = module / f"weft-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: weft\nVersion: {version}\nRequires-Dist: numpy>=1.19\n")
    for path in sorted(root.rglob("*")):
        if path.is_symlink() or path.is_dir():
            continue
        head = path.open("rb").read(8)
        if head[:4] == b"\x7fELF":
            run("strip", "--strip-unneeded", "--remove-section=.comment", "--remove-section=.note", path)
        elif head == b"!<arch>\n":
            run("strip", "--strip-debug", "--enable-deterministic-archives", path)
        is_run = path.parent == root / "usr/bin" or path.suffix == ".sh"
        path.chmod(0o755 if is_run else 0o644)


def divide(root, folder):
    """Moves each staged file to its package's folder."""
    for path in sorted(root.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        name = str(path.relative_to(root))
        package = next((package for package, patterns in FILES.items()
                        if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)), None)
        if package is None:
            sys.exit(f"make_debs: no package takes {name}; FILES says which do")
        target = folder / package / name
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)


def shared_libraries(tree):
    """`Depends` for the programs and libraries in `tree`, as dpkg-shlibdeps knows them."""
    binaries = [path for path in sorted(tree.rglob("*"))
                if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF"]
    if not binaries:
        return ""
    with tempfile.TemporaryDirectory() as here:
        (pathlib.Path(here) / "debian").mkdir()
        (pathlib.Path(here) / "debian/control").write_text("Source: weft\n\nPackage: weft\nArchitecture: any\n")
        told = run("dpkg-shlibdeps", "-O", "--warnings=0", *[f"-e{path}" for path in binaries], cwd=here)
    return told.strip().removeprefix("shlibs:Depends=")


def write_control(tree, package, version, architecture):
    control = tree / "DEBIAN"
    control.mkdir()
    files = [path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink()
             and control not in path.parents]
    size = sum((path.stat().st_size + 1023) // 1024 for path in files)
    values = {"version": version, "shlibs": shared_libraries(tree)}
    kept = "all" if package == "python3-weft" else architecture
    lines = [f"Package: {package}", "Source: weft", f"Version: {version}", f"Architecture: {kept}",
             f"Maintainer: {MAINTAINER}", f"Installed-Size: {size}", "Priority: optional"]
    lines += [f"{key}: {text.format(**values)}" for key, text in FIELDS[package].items()]
    (control / "control").write_text("\n".join(lines) + "\n")
    (control / "md5sums").write_text("".join(
        f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in files
        if path.relative_to(tree).parts[0] != "etc"))
    settings = [f"/{path.relative_to(tree)}\n" for path in files if path.relative_to(tree).parts[0] == "etc"]
    if settings:
        (control / "conffiles").write_text("".join(settings))
    if package == "libweft0":
        (control / "triggers").write_text("activate-noawait ldconfig\n")
        (control / "shlibs").write_text(f"libweft 0 libweft0 (>= {version.partition('-')[0]})\n")
        (control / "symbols").write_text(symbols(version.partition("-")[0]))
    for name, text in SCRIPTS.get(package, {}).items():
        (control / name).write_text(f"#!/bin/sh\nset -e\n{text}")
        (control / name).chmod(0o755)


def symbols(upstream):
    """The names of capi/exports.txt and the version of the library that has each: its node's, or this one's if older."""
    rows, node = [], ""
    for line in (SOURCE / "capi/exports.txt").read_text().split("\n"):
        if line.startswith("WEFT_"):
            node = line
            came = min(node[5:] + ".0", upstream, key=lambda version: [int(part) for part in version.split(".")])
        if line.startswith(("WEFT_", "weft_")):
            rows.append(f" {line}@{node} {came}\n")
    return "libweft.so.0 libweft0\n" + "".join(sorted(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--compression", choices=["xz", "gzip", "none"], default="xz")
    parser.add_argument("--revision", default="1")
    parser.add_argument("--cmake", default="cmake")
    given = parser.parse_args()
    upstream, day = released()
    version = f"{upstream}-{given.revision}"
    architecture = run("dpkg", "--print-architecture").strip()
    given.folder.mkdir(parents=True, exist_ok=True)
    changes = (f"weft ({version}) unstable; urgency=medium\n\n  * See CHANGELOG.md in weft's documents.\n\n"
               f" -- {MAINTAINER}  {day:%a, %d %b %Y %H:%M:%S +0000}\n").encode()
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        stage(given.build.resolve(), given.cmake, work / "root", upstream)
        divide(work / "root", work)
        for package in sorted(FILES):
            tree = work / package
            documents = tree / "usr/share/doc" / package
            packed(documents / "changelog.Debian.gz", changes)
            (documents / "copyright").write_text(COPYRIGHT)
            overrides = tree / "usr/share/lintian/overrides" / package
            overrides.parent.mkdir(parents=True)
            overrides.write_text("".join(f"{package}: {tag}\n" for tag in
                                         ["initial-upload-closes-no-bugs", *OVERRIDES.get(package, [])]))
            write_control(tree, package, version, architecture)
            kind = "all" if package == "python3-weft" else architecture
            path = given.folder / f"{package}_{version}_{kind}.deb"
            level = ["-z1"] if given.compression == "gzip" else []
            run("dpkg-deb", f"-Z{given.compression}", *level, "--root-owner-group", "--build", tree, path,
                env=os.environ | {"SOURCE_DATE_EPOCH": str(int(day.timestamp()))})
            print(path)


if __name__ == "__main__":
    main()
