#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds libweft.so and puts the Python package into a virtual environment, on a fresh Debian 12, as root or as
# a user with sudo:
#
#   tools/python.sh [FOLDER]      build/python where none is named
#   build/python/bin/python -c 'import weft'
# A wheel for other environments of this machine lies beside it (docs/python.md).
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/python}
tools/setup.sh
cmake --preset release -DWEFT_PRECOMPILE=all -DWEFT_UNITY=ON
cmake --build --preset release --target weft_shared
# Without pip, which Debian packs apart: a wheel without scripts is an archive of what goes into site-packages.
/usr/bin/python3 -m venv --without-pip --system-site-packages "$folder"
wheels=$(dirname "$folder")/wheels
rm -rf "$wheels"
/usr/bin/python3 bindings/python/make_wheel.py build/release/lib/libweft.so "$wheels"
/usr/bin/python3 -m zipfile -e "$wheels"/weft-*.whl "$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
echo "tools/python.sh: weft $("$folder/bin/python" -c 'import weft; print(weft.__version__)') in $folder"
