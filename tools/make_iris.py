#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes examples/data/iris.csv from Debian's python3-sklearn: 150 flowers, four lengths in centimetres and the species.

The data: R. A. Fisher, "The use of multiple measurements in taxonomic problems", Annals of Eugenics 7 (2), 179-188, 1936,
as copied by scikit-learn (BSD-3-Clause). Rows keep scikit-learn's order.

Run once:  /usr/bin/python3 tools/make_iris.py [--check]
"""
import pathlib
import sys

from sklearn.datasets import load_iris

PATH = pathlib.Path(__file__).resolve().parent.parent / "examples" / "data" / "iris.csv"


def text() -> str:
    iris = load_iris()
    assert iris.data.shape == (150, 4)
    rows = (",".join(map(str, lengths)) + f",{iris.target_names[species]}\n"
            for lengths, species in zip(iris.data, iris.target))
    return "sepal_length,sepal_width,petal_length,petal_width,species\n" + "".join(rows)


def main() -> int:
    if "--check" in sys.argv[1:]:
        same = PATH.read_text() == text()
        print("same" if same else f"{PATH} differs from scikit-learn's iris")
        return 0 if same else 1
    PATH.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
