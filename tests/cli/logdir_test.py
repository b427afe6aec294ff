#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--logdir` of weft run and weft live: event files for TensorBoard, read by the description of their bytes, and the same
numbers as a table.

  tests/cli/logdir_test.py PROGRAM
"""
import csv
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEFT = sys.argv.pop(1) if len(sys.argv) > 1 else None


def checksum(data):
    """CRC-32C, bit by bit, masked as TensorFlow's record_writer.h says."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        length, of_length = struct.unpack_from("<QI", data)
        assert checksum(data[:8]) == of_length, "checksum of a length"
        message, data = data[12:12 + length], data[12 + length:]
        assert len(message) == length and struct.unpack_from("<I", data)[0] == checksum(message), "checksum of a message"
        data = data[4:]
        yield message


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """Number and value of each field of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        elif kind == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            raise ValueError(f"wire type {kind}")
        yield key >> 3, value


def events(path):
    """(step, {tag: value}) of each event but the first."""
    messages = list(records(path.read_bytes()))
    first = dict(fields(messages[0]))
    assert set(first) == {1, 3} and first[3] == b"brain.Event:2", first
    for message in messages[1:]:
        event = dict(fields(message))
        assert set(event) == {1, 2, 5}, event
        assert abs(event[1] - time.time()) < 600, event[1]
        scalars = [dict(fields(value)) for number, value in fields(event[5]) if number == 1]
        assert all(set(each) == {1, 2} for each in scalars)
        yield event[2], {each[1].decode(): each[2] for each in scalars}


def table(directory):
    with (directory / "scalars.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class Logdir(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.directory = pathlib.Path(folder.name) / "log"

    def weft(self, *words):
        return subprocess.run([WEFT, *map(str, words)], capture_output=True, text=True, check=False)

    def lines(self, *words):
        done = self.weft(*words, "--json", "--logdir", self.directory)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def check_same(self, step):
        """The event files together hold what the table does."""
        rows = table(self.directory)
        found = [each for path in sorted(self.directory.glob("events.out.tfevents.*.weft")) for each in events(path)]
        self.assertEqual(len(found), len(rows))
        for (at, scalars), row in zip(found, rows):
            self.assertEqual(at, int(row.pop(step)))
            self.assertEqual(scalars, {name: float32(float(value)) for name, value in row.items() if value})
        return rows

    def test_a_run_is_logged_as_it_is_told(self):
        told = self.lines("run", ROOT / "examples/digits.json", "--max-samples", 600, "--threads", 1)
        rows = [row for row in self.check_same("samples") if row["ticks"]]  # others are of events
        progress = [each for each in told if each["event"] == "progress"]
        self.assertEqual([int(row["samples"]) for row in table(self.directory) if row["ticks"]][:-1],
                         [each["samples"] for each in progress])
        for row, each in zip(rows, progress):
            for name in ("prequential_accuracy", "mean_loss", "ticks", "epoch"):
                self.assertEqual(float(row[name]), each[name], name)
            self.assertEqual(row["held_out_accuracy"], "")
        self.assertEqual(float(rows[-1]["held_out_accuracy"]), told[-1]["held_out_accuracy"])

    def test_logging_changes_no_bit_and_a_second_run_is_refused(self):
        words = ("run", ROOT / "examples/digits.json", "--max-samples", 300, "--threads", 1)
        told = self.lines(*words)
        before = len(table(self.directory))
        plain = json.loads(self.weft(*words, "--json").stdout.splitlines()[-1])
        self.assertEqual(told[-1]["state_hash"], plain["state_hash"])
        refused = self.weft(*words, "--logdir", self.directory, "--state", self.directory.parent / "new")
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn(f"{self.directory}/scalars.csv: ends at samples 300 of another run, and this one begins at 0; give "
                      "--logdir another directory", refused.stderr)
        self.assertFalse((self.directory.parent / "new").exists())
        self.assertEqual(len(self.check_same("samples")), before)

    def test_an_agent_logs_its_episodes(self):
        told = self.lines("live", ROOT / "examples/cartpole.json", "--steps", 1500, "--threads", 1)
        rows = self.check_same("step")
        episodes = [each for each in told if each["event"] == "episode"]
        self.assertGreater(len(episodes), 10)
        self.assertEqual([(float(row["return"]), int(row["length"])) for row in rows],
                         [(each["return"], each["length"]) for each in episodes])

    def test_an_agent_that_was_killed_logs_each_episode_once(self):
        words = ("live", ROOT / "examples/cartpole.json", "--steps", 3000, "--threads", 1)
        whole = [each["step"] for each in self.lines(*words) if each["event"] == "episode"]
        log, state = self.directory.parent / "killed", self.directory.parent / "agent"
        words = [WEFT, *map(str, words), "--state", str(state), "--durability", "tick", "--json", "--logdir", str(log)]
        for _ in range(2):
            with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
                for line in running.stdout:
                    if json.loads(line)["event"] == "episode":
                        break
                running.kill()
        subprocess.run(words, check=True, capture_output=True)
        self.assertEqual([int(row["step"]) for row in table(log)], whole)
        self.assertEqual([int(row["step"]) for row in table(state)], whole)
        # Another agent in the same directory is refused before it acts.
        refused = self.weft(*words[1:words.index("--state")], "--logdir", log)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn(f"scalars.csv: ends at step {whole[-1]} of another run, and this one begins at 0", refused.stderr)
        self.assertEqual([int(row["step"]) for row in table(log)], whole)
        # A data directory loses lines after the step that it goes on from, and half a line.
        text = (state / "scalars.csv").read_text(encoding="utf-8")
        (state / "scalars.csv").write_text(text + "3001,9,9\n3500,1", encoding="utf-8")
        subprocess.run(words, check=True, capture_output=True)
        self.assertEqual((state / "scalars.csv").read_text(encoding="utf-8"), text)

    def test_a_table_of_another_kind_is_left_as_it_is(self):
        self.directory.mkdir()
        (self.directory / "scalars.csv").write_text("a,b\n1,2\n", encoding="utf-8")
        done = self.weft("run", ROOT / "examples/digits.json", "--max-samples", 10, "--logdir", self.directory)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("other columns", done.stderr)
        self.assertEqual((self.directory / "scalars.csv").read_text(encoding="utf-8"), "a,b\n1,2\n")
        self.assertEqual([path.name for path in self.directory.iterdir()], ["scalars.csv"])

    def test_what_it_logs_can_be_plotted(self):
        self.lines("run", ROOT / "examples/digits.json", "--max-samples", 600, "--threads", 1)
        picture = self.directory.parent / "x.svg"
        done = self.weft("plot", self.directory / "scalars.csv", "-o", picture)
        self.assertEqual(done.returncode, 0, done.stderr)
        # Its accuracies alone, on an axis from 0 to 1: ticks beside them would flatten them to a line.
        text = picture.read_text(encoding="utf-8")
        self.assertIn("prequential_accuracy</text>", text)
        self.assertIn("held_out_accuracy</text>", text)
        for other in ("ticks", "epoch", "mean_loss"):
            self.assertNotIn(other, text)
        last = float(table(self.directory)[-2]["prequential_accuracy"])
        curve = re.search(r'class="curve"[^>]*points="([^"]*)"', text).group(1).split()
        low, high = 420 - 55, 50  # of 0 and 1 in the picture
        self.assertAlmostEqual(float(curve[-1].split(",")[1]), low - (low - high) * last, delta=15)
        done = self.weft("plot", self.directory / "scalars.csv", "-o", picture, "--columns", "mean_loss")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mean_loss</text>", picture.read_text(encoding="utf-8"))
        done = self.weft("plot", self.directory / "scalars.csv", "-o", picture, "--columns", "mean_los")
        self.assertEqual(done.returncode, 3)
        self.assertIn("has no column 'mean_los' to show; did you mean 'mean_loss'?", done.stderr)

    def marked(self):
        """Samples of the changes, warnings and alarms in the table."""
        rows = table(self.directory)
        return {kind: [int(row["samples"]) for row in rows if row[kind]] for kind in ("change", "warning", "alarm")}

    def drawn(self, *files):
        """The picture of these files, and the places of its marks, those of the legend among them."""
        picture = self.directory.parent / "marks.svg"
        done = self.weft("plot", *files, "-o", picture)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = picture.read_text(encoding="utf-8")
        return text, {kind: [float(x) for x in re.findall(rf'<line x1="([0-9.]+)"[^>]*class="{kind}"/>', text)]
                      for kind in ("change", "warning", "alarm")}

    def test_changes_and_alarms_are_marked_in_every_form(self):
        state, log = self.directory.parent / "state", self.directory.parent / "run.jsonl"
        network = json.loads((ROOT / "examples/drift.json").read_text(encoding="utf-8"))
        network["stream"] |= {"csv": str(ROOT / "examples/data/digits.csv.gz"), "change_every": 9000}
        file = self.directory.parent / "n.json"
        file.write_text(json.dumps(network), encoding="utf-8")
        told = self.lines("run", file, "--threads", 1, "--state", state)
        log.write_text("".join(json.dumps(each) + "\n" for each in told), encoding="utf-8")
        self.check_same("samples")
        seen = [each for each in told if each["event"] == "drift_seen"]
        expected = {"change": [9000, 11504, 18000, 27000],
                    "warning": [each["sample"] for each in seen if each["level"] == "warning"],
                    "alarm": [each["sample"] for each in seen if each["level"] != "warning"]}
        self.assertEqual(self.marked(), expected)
        self.assertEqual([each["sample"] for each in told if each["event"] == "change"], [9000, 18000, 27000])
        self.assertEqual([each["sample"] for each in told if each["event"] == "drift"], [11504])
        self.assertGreater(len(expected["alarm"]), 0)
        first = [int(row["samples"]) for row in table(self.directory) if row["prequential_accuracy"]]
        for source in (self.directory, self.directory / "scalars.csv", state, log):
            text, places = self.drawn(source)
            for kind, samples in expected.items():
                count = len(samples)
                words = {"change": "change of the task" if count == 1 else "changes of the task"}.get(
                    kind, kind if count == 1 else kind + "s")
                self.assertEqual(f">{count} {words}</text>" in text, count > 0, (source, kind))
                # One more in the legend.
                self.assertEqual(len(places[kind]), count + (count > 0), (source, kind))
            if source != state:  # whose curve has points of its own
                for x, sample in zip(places["change"], expected["change"]):
                    self.assertAlmostEqual(x, 70 + (sample - first[0]) / (first[-1] - first[0]) * 670, delta=0.1)
            self.assertNotIn("var(", text)  # rsvg-convert would paint all of that black
        text, _ = self.drawn(log, self.directory / "scalars.csv")
        self.assertIn(">4 changes of the task, of one run</text>", text)

    def test_a_run_that_was_killed_marks_each_change_once(self):
        words = ("run", ROOT / "examples/drift.json", "--threads", 1)
        self.lines(*words)
        whole, self.directory = self.marked(), self.directory.parent / "killed"
        state = self.directory.parent / "agent"
        words = [WEFT, *map(str, words), "--state", str(state), "--durability", "tick", "--json", "--logdir",
                 str(self.directory)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
            for line in running.stdout:
                if json.loads(line)["event"] == "drift_seen":
                    break
            running.kill()
        subprocess.run(words, check=True, capture_output=True)
        self.assertEqual(self.marked(), whole)
        self.assertEqual(self.drawn(state)[1].keys(), whole.keys())

    def test_changes_and_alarms_of_an_agent_are_marked_in_every_form(self):
        state, log = self.directory.parent / "state", self.directory.parent / "live.jsonl"
        network = json.loads((ROOT / "examples/cartpole.json").read_text(encoding="utf-8"))
        self.assertIn("reinforcement", network)
        network["learning"]["drift"] = {"detector": "page_hinkley", "input": "return", "threshold": 10, "tolerance": 1}
        file = self.directory.parent / "n.json"
        file.write_text(json.dumps(network), encoding="utf-8")
        words = ("live", file, "--threads", 1, "--state", state, "--steps")
        told = self.lines(*words, 2900) + self.lines(*words, 6000)
        log.write_text("".join(json.dumps(each) + "\n" for each in told), encoding="utf-8")
        seen = [each for each in told if each["event"] == "drift_seen"]
        expected = {"change": [], "warning": [each["step"] for each in seen if each["level"] == "warning"],
                    "alarm": [each["step"] for each in seen if each["level"] != "warning"]}
        self.assertGreater(len(expected["alarm"]), 0)
        for directory in (self.directory, state):
            rows = table(directory)
            self.assertEqual({kind: [int(row["step"]) for row in rows if row[kind]] for kind in expected}, expected)
            self.assertEqual([int(row["step"]) for row in rows if row["return"]],
                             [each["step"] for each in told if each["event"] == "episode"])
            self.assertEqual([int(row["step"]) for row in rows], sorted(int(row["step"]) for row in rows))
        for source in (self.directory, state, log):
            _, places = self.drawn(source)
            for kind, steps in expected.items():
                self.assertEqual(len(places[kind]), len(steps) + (len(steps) > 0), (source, kind))

    def test_turns_of_an_environment_are_known_changes(self):
        network = json.loads((ROOT / "examples/turns.json").read_text(encoding="utf-8"))
        network["reinforcement"]["environment"]["every"] = 300
        file = self.directory.parent / "n.json"
        file.write_text(json.dumps(network), encoding="utf-8")
        told = self.lines("live", file, "--threads", 1, "--steps", 1000)
        self.assertEqual([each["step"] for each in told if each["event"] == "change"], [300, 600, 900])
        self.assertEqual([int(row["step"]) for row in table(self.directory) if row["change"]], [300, 600, 900])

    def test_a_run_whose_task_stays_has_no_columns_for_changes(self):
        self.lines("run", ROOT / "examples/digits_gru.json", "--max-samples", 100, "--threads", 1)
        self.assertNotIn("alarm", table(self.directory)[0])

    def test_layers_are_plotted_a_line_each(self):
        self.directory.mkdir()
        path, picture = self.directory / "layers.csv", self.directory / "layers.svg"
        path.write_text("tick,z,y,x,layer,error,budget,update,relative_update,error_age,weight,dormant\n"
                        "10,0,0,0,0,1,1,1,1,0,0.5,0.25\n10,0,0,1,0,1,1,1,1,0,0.5,0\n"
                        "20,0,0,0,0,1,1,1,1,0,0.5,0.5\n20,0,0,1,0,1,1,1,1,0,0.5,0\n", encoding="utf-8")
        done = self.weft("plot", path, "-o", picture)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = picture.read_text(encoding="utf-8")
        self.assertEqual(text.count('class="curve"'), 2)
        for name in ("dormant [0,0,0,0]", "dormant [0,0,1,0]"):
            self.assertIn(name + "</text>", text)
        # Eight lines need a legend of several rows, none of which leaves the picture.
        done = self.weft("plot", path, "-o", picture, "--columns", "weight,error,dormant,relative_update")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = picture.read_text(encoding="utf-8")
        self.assertEqual(text.count('class="curve"'), 8)
        names = re.findall(r'<text x="([0-9.]+)" y="([0-9.]+)"[^>]*>([a-z_]+ \[0,0,[01],0\])</text>', text)
        self.assertEqual(len(names), 8)
        self.assertGreater(len({y for _, y, _ in names}), 1)
        for x, _, name in names:
            self.assertLess(float(x) + 6.5 * len(name), 760)


if __name__ == "__main__":
    unittest.main()
