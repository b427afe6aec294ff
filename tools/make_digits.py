#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes examples/data/digits.csv.gz from Debian's python3-sklearn: 1,797 digits, 64 pixels of 0..16 and the label.

The data: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998,
the test set, CC BY 4.0, as copied by scikit-learn (BSD-3-Clause). Rows keep scikit-learn's order.

Run once:  /usr/bin/python3 tools/make_digits.py [--check]
"""
import gzip
import io
import pathlib
import sys

from sklearn.datasets import load_digits

PATH = pathlib.Path(__file__).resolve().parent.parent / "examples" / "data" / "digits.csv.gz"


def text() -> str:
    digits = load_digits()
    assert digits.data.shape == (1797, 64) and (digits.data == digits.data.astype(int)).all()
    rows = (list(map(int, pixels)) + [int(label)] for pixels, label in zip(digits.data, digits.target))
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def main() -> int:
    if "--check" in sys.argv[1:]:
        same = gzip.decompress(PATH.read_bytes()).decode() == text()
        print("same" if same else f"{PATH} differs from scikit-learn's digits")
        return 0 if same else 1
    packed = io.BytesIO()
    # No name and no time inside, so that the same rows give the same file.
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=9, mtime=0) as out:
        out.write(text().encode())
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_bytes(packed.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main())
