#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures of networks: `weft view` of shipped examples, of odd names, of large grids and of nonsense.

  view_test.py WEFT

What is drawn is counted in the written files by an XML reader, beside what `weft inspect --json` says of the network.
Graphviz reads the graphs where its program `dot` is installed (else skipped, and counted).
"""
import html.parser
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"
EXAMPLES = ["digits", "digits_cnn", "digits_gru", "digits_moe", "digits_transformer"]
ODD = "<img src=x onerror=alert(1)>&\"'\u202e\x1b[31m]]>"


def run(*words, status=0):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, (words, done.returncode, done.stderr)
    return done


def svg_of(weft, file):
    return ElementTree.fromstring(run(weft, "view", file, "--format", "svg").stdout)


def links_of(svg):
    """Paths of links, without the legend's strokes."""
    return [path for group in svg.findall(f"{SVG}g[@aria-hidden]") for path in group.findall(f"{SVG}path")]


def boxes_of(svg):
    return svg.findall(f"{SVG}g[@class='layer']")


class Page(html.parser.HTMLParser):
    """Tags of a page; what it would load, run or leave open is a fault."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.rows, self.text = [], 0, ""
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "img", "link", "iframe", "object"), tag
        for name, value in attrs:
            assert not name.startswith("on") and "://" not in (value or "").replace("http://www.w3.org/2000/svg", ""), (name, value)
        if tag != "meta":
            self.open.append(tag)
        self.rows += tag == "tr"

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:])
        self.open.pop()

    def handle_data(self, data):
        self.text += data


def check_examples(weft, folder):
    for name in EXAMPLES:
        file = ROOT / f"examples/{name}.json"
        told = json.loads(run(weft, "inspect", file, "--json").stdout)
        svg = svg_of(weft, file)
        layers, ports, outputs = len(told["layers"]), len(told["inputs"]), len(told["outputs"])
        assert len(boxes_of(svg)) == layers + ports + outputs, name
        assert len(links_of(svg)) == told["links"] + outputs, name
        titles = [box.find(f"{SVG}title").text for box in boxes_of(svg)]
        for layer in told["layers"]:
            at = "[" + ",".join(map(str, layer["at"])) + "]"
            assert any(text.startswith(f"{at} {layer['type']}") for text in titles), (name, at)
        width, height = float(svg.get("width")), float(svg.get("height"))
        for rect in svg.iter(f"{SVG}rect"):
            if rect.get("x"):
                assert 0 <= float(rect.get("x")) and float(rect.get("x")) + float(rect.get("width")) <= width, name
                assert 0 <= float(rect.get("y")) and float(rect.get("y")) + float(rect.get("height")) <= height, name
        out = folder / f"{name}.html"
        run(weft, "view", file, "-o", out)
        page = Page(out.read_text())
        assert page.rows == layers + 1, name
    feedback = [path for path in links_of(svg_of(weft, ROOT / "examples/digits.json")) if "feedback" in path.get("class")]
    assert len(feedback) == 1, "digits has one feedback link"


def check_graphviz(weft):
    """1 where Graphviz was there, else 0."""
    dot = shutil.which("dot")
    for name in EXAMPLES:
        text = run(weft, "view", ROOT / f"examples/{name}.json", "--format", "dot").stdout
        told = json.loads(run(weft, "inspect", ROOT / f"examples/{name}.json", "--json").stdout)
        assert text.count(" -> ") == told["links"] + len(told["outputs"]), name
        if dot:
            subprocess.run([dot, "-Tplain"], input=text, text=True, check=True, capture_output=True)
    return int(dot is not None)


def odd_network():
    return {"weft": 2, "name": ODD, "inputs": {ODD: [3]}, "grid": {"z": 2, "x": 9},
            "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 2, "from": [ODD]},
                       {"at": [1, 0, 8, 0], "type": "dense", "out": 2, "from": [[0, 0, 0, 0]]}],
            "outputs": {ODD: [1, 0, 8, 0]}}


def check_odd_names(weft, folder):
    file = folder / "odd.json"
    file.write_text(json.dumps(odd_network()))
    svg = svg_of(weft, file)
    text = "".join(svg.itertext())
    assert "<img src=x onerror=alert(1)>" in text and "\u202e" not in text and "\x1b" not in text
    assert any("remote" in path.get("class") for path in links_of(svg)), "z and x differ by more than 1"
    assert "<img src=x" in Page(run(weft, "view", file, "--format", "html").stdout).text
    run(weft, "view", file, "--format", "dot")


def check_large(weft, folder):
    file = folder / "large.json"
    for side, squares in ((40, 1600), (300, 100 * 100)):
        network = {"weft": 2, "grid": {"y": side, "x": side}, "inputs": {"drive": [1]},
                   "layers": [{"repeat": {"y": [0, side], "x": [0, side]}, "type": "dense", "out": 1, "from": ["drive"],
                               "neighbours": "von_neumann"}],
                   "outputs": {"y": [0, 0, 0, 0]}}
        file.write_text(json.dumps(network))
        svg = svg_of(weft, file)
        assert len(boxes_of(svg)) == squares, (side, len(boxes_of(svg)))
        assert "Links are not drawn" in "".join(svg.itertext()), "90,000 links would cover the cells"
        assert len(run(weft, "view", file, "--format", "svg").stdout) < 8e6
    assert Page(run(weft, "view", file, "--format", "html").stdout).rows == 1001


def check_nonsense(weft, folder):
    digits = ROOT / "examples/digits.json"
    for words, status, text in (([digits], 2, "where to?"), ([digits, "-o", folder / "x.png"], 2, "none of .html, .svg, .dot"),
                                ([digits, "-o", folder / "no/x.svg"], 5, "there is no directory"),
                                ([folder / "none.json", "--format", "svg"], None, "none.json"),
                                ([digits, "--format", "pdf"], 2, "pdf")):
        done = subprocess.run([weft, "view", *map(str, words)], capture_output=True, text=True, check=False)
        assert done.returncode == (status or done.returncode) != 0 and text in done.stderr, (words, done)
    copy = folder / "copy.svg"
    shutil.copy(digits, copy)
    before = copy.read_bytes()
    run(weft, "view", copy, "-o", copy, status=2)
    assert copy.read_bytes() == before, "the network itself is never replaced"
    told = json.loads(run(weft, "view", digits, "-o", folder / "a.svg", "--json").stdout)
    assert told["file_bytes"] == (folder / "a.svg").stat().st_size and told["format"] == "svg"


def main():
    weft = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        check_examples(weft, folder)
        had_graphviz = check_graphviz(weft)
        check_odd_names(weft, folder)
        check_large(weft, folder)
        check_nonsense(weft, folder)
    print("pictures as described" + ("" if had_graphviz else "; 1 check skipped: no Graphviz"))


if __name__ == "__main__":
    main()
