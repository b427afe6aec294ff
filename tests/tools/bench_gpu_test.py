# SPDX-License-Identifier: Apache-2.0
"""`weft bench gpu` in its smallest form: each row there is has its floor. Skipped (77) without a Vulkan device."""
import json, os, subprocess, sys

weft, bench = sys.argv[1], sys.argv[2]
KEYS = ["name", "weft", "peer", "peer_value", "ratio", "floor", "unit"]
BOUNDS = {"least_ratio", "most"}
SECTIONS = {"copy", "fma", "gemv", "gemm", "linear", "linear_transposed", "outer_accumulate", "swiglu", "tick", "learn", "convolve",
            "convolve_transposed", "convolve_outer", "token", "prompt"}
COUNTS = {"levels", "dispatches"}  # of a token: what a device is asked for, not how fast it is
OURS = {"in float32", "its parts"}  # what Weft is compared with besides others' code


def run(*words, expected=0):
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == expected, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


found = json.loads(run(weft, "doctor", "--json"))["gpu"]
usable = [device for device in found["devices"] if device["self_test"] and device["self_test"].get("exact")]
if not usable:
    print("no Vulkan device that Weft can use:", found["problem"])
    sys.exit(77)
# A machine with a GPU would measure for minutes; one made of CPU has sizes of its own.
small = [device["selector"] for device in usable if device["kind"] == "cpu"]
if not small:
    print("no device made of CPU")
    sys.exit(77)
quick = (bench, "gpu", "--quick", "--no-peer", "--device", small[0])
rows = [json.loads(line) for line in run(*quick, "--json").splitlines()]
assert {row["name"].split("/")[1].split()[0] for row in rows} == SECTIONS, rows
names = [row["name"] for row in rows]
assert len(names) == len(set(names)), names
for row in rows:
    assert [key for key in row if key not in BOUNDS | {"ratio_range"}] == KEYS, row
    if row["name"].split()[-1] in COUNTS:
        assert row["weft"] > 0 and row["weft"] == int(row["weft"]) and row["floor"] is None, row
    else:
        assert row["weft"] > 0 and row["floor"] and row["floor"] > 0, f"no floor: {row}"
    assert row["peer"] in {None, "copy"} | OURS, row
parts = {row["name"].split()[3]: row["floor"] for row in rows if row["name"].endswith("of float32's time")}
assert len(parts) == 5 and all(0 < part < 1 for part in parts.values()), parts
assert parts["binary/tensor"] < parts["int4/channel"] < parts["int8/channel"], parts
# Bounds are asked of the sizes that are claimed, not of these.
assert not any(BOUNDS & row.keys() for row in rows), rows
table = run(*quick, "--only", "gemv").splitlines()
assert table[0].split() == ["name", "weft", "peer", "value", "ratio", "floor", "unit"], table
assert len(table) == 6 and table[3].startswith("gpu/gemv 64 "), table
run(bench, "--only", "nothing", expected=2)
run(weft, "bench", "nothing", expected=2)
print(f"{len(rows)} rows on {small[0]}")
