#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A wheel with the library inside, made without a compiler or other tools.

  make_wheel.py LIBRARY FOLDER [--platform linux_x86_64] [--bundle]      prints the wheel's path

The library's own needs (oneTBB, hwloc, spdlog, fmt, zstd, zlib, xxhash, ICU) are the system's. With --bundle they are in
the wheel too, which is for every system whose glibc is this one's or newer: manylinux_2_36. The same input gives the same
bytes.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sysconfig
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser()
parser.add_argument("library", type=pathlib.Path)
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--platform")
parser.add_argument("--bundle", action="store_true")
given = parser.parse_args()
platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
# Of glibc and of the compiler, which every system of a manylinux tag has.
SYSTEM = re.compile(r"(ld-linux.*|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+)\.so\..*")


def needs_of(library, seen):
    """Paths of what a library is linked with, those first that others need: by what the loader finds here."""
    told = subprocess.run(["ldd", library], check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    for name, path in re.findall(r"(\S+) => (/\S+)", told):
        if name not in seen and not SYSTEM.fullmatch(name):
            seen.add(name)
            yield from needs_of(path, seen)
            yield name, path
    assert "not found" not in told, told


if given.bundle:
    platform = f"manylinux_{os.confstr('CS_GNU_LIBC_VERSION').split()[1].replace('.', '_')}_{os.uname().machine}"
if given.platform:
    platform = given.platform

project = (HERE / "pyproject.toml").read_text()
field = {key: re.search(rf'^{key} = "(.*)"$', project, re.M)[1] for key in ("version", "description", "requires-python")}
tag = f"py3-none-{platform}"
folder = f"weft-{field['version']}.dist-info"
files = {f"weft/{path.name}": path.read_bytes() for path in sorted((HERE / "weft").glob("*.py"))}
files["weft/py.typed"] = b""
files.update({f"welvet/{path.name}": path.read_bytes() for path in sorted((HERE / "compat/welvet").glob("*.py"))})
files["weft/libweft.so.0"] = given.library.resolve().read_bytes()
if given.bundle:
    bundled = list(needs_of(given.library.resolve(), set()))
    files.update({f"weft/libs/{name}": pathlib.Path(path).resolve().read_bytes() for name, path in bundled})
    files["weft/libs/order.txt"] = "".join(f"{name}\n" for name, _ in bundled).encode()  # in which they are loaded
files[f"{folder}/METADATA"] = (f"Metadata-Version: 2.1\nName: weft\nVersion: {field['version']}\n"
                               f"Summary: {field['description']}\nLicense: Apache-2.0\n"
                               f"Requires-Python: {field['requires-python']}\nRequires-Dist: numpy>=1.19\n").encode()
files[f"{folder}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: make_wheel\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
record = "".join(f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},"
                 f"{len(data)}\n" for name, data in files.items()) + f"{folder}/RECORD,,\n"
files[f"{folder}/RECORD"] = record.encode()
given.folder.mkdir(parents=True, exist_ok=True)
wheel = given.folder / f"weft-{field['version']}-{tag}.whl"
with zipfile.ZipFile(wheel, "w") as archive:
    for name, data in files.items():
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = 0o100644 << 16
        archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
print(wheel)
