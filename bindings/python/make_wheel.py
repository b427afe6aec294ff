#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A wheel with the library inside, made without a compiler or other tools.

  make_wheel.py LIBRARY FOLDER [--platform linux_x86_64]      prints the wheel's path

The library's own needs (oneTBB, hwloc, spdlog, fmt, zstd, zlib, xxhash, ICU) are the system's. The same input gives the
same bytes.
"""
import argparse
import base64
import hashlib
import pathlib
import re
import sysconfig
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser()
parser.add_argument("library", type=pathlib.Path)
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--platform", default=re.sub(r"[-.]", "_", sysconfig.get_platform()))
given = parser.parse_args()

project = (HERE / "pyproject.toml").read_text()
field = {key: re.search(rf'^{key} = "(.*)"$', project, re.M)[1] for key in ("version", "description", "requires-python")}
tag = f"py3-none-{given.platform}"
folder = f"weft-{field['version']}.dist-info"
files = {f"weft/{path.name}": path.read_bytes() for path in sorted((HERE / "weft").glob("*.py"))}
files["weft/py.typed"] = b""
files.update({f"welvet/{path.name}": path.read_bytes() for path in sorted((HERE / "compat/welvet").glob("*.py"))})
files["weft/libweft.so.0"] = given.library.resolve().read_bytes()
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
