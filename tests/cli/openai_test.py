# SPDX-License-Identifier: Apache-2.0
"""The npm package openai, unmodified, against `weft serve`. Skipped (77) where node, the package or the models are not.

  tests/cli/openai_test.py WEFT
The package is looked for in WEFT_OPENAI_PACKAGE (a folder with index.mjs), then in node_modules beside the checkout.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

WEFT = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "../shared/data"
VERSION = "6.49.0"
NETWORK = {"weft": 2, "name": "small", "grid": {"z": 1, "y": 1, "x": 1, "layers": 1}, "inputs": {"x": [4]},
           "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 3, "from": ["x"]}], "outputs": {"y": [0, 0, 0, 0]}}
TEMPLATE = ("{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant: {% endif %}")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def package():
    given = os.environ.get("WEFT_OPENAI_PACKAGE")
    for folder in [pathlib.Path(given)] if given else [ROOT / "node_modules/openai", ROOT / "../node_modules/openai"]:
        if (folder / "index.mjs").is_file():
            found = json.loads((folder / "package.json").read_text())["version"]
            return folder if found == VERSION else skip(f"openai {found} is not {VERSION}")
    return skip(f"npm install openai@{VERSION}, and name its folder in WEFT_OPENAI_PACKAGE")


def main():
    node = shutil.which("node") or skip("node is not there")
    folder = package()
    stories, other = DATA / "stories260K/derived", DATA / "language/tinystories-656k"
    if not stories.is_dir() or not other.is_dir():
        skip("no ../shared/data")
    with tempfile.TemporaryDirectory() as scratch:
        network, template = pathlib.Path(scratch, "net.json"), pathlib.Path(scratch, "template.jinja")
        network.write_text(json.dumps(NETWORK))
        template.write_text(TEMPLATE)
        keys = pathlib.Path(scratch, "keys")
        keys.write_text("secret\n")
        server = subprocess.Popen(
            [WEFT, "serve", "--json", "--port", "0", "--threads", "1", "--api-key-file", keys, "--slots", "4",
             "--queue", "4", "--chat-template", template, f"stories={stories}", f"other={other}", network],
            stdout=subprocess.PIPE, text=True)
        try:
            address = json.loads(server.stdout.readline())["listen"][0]
            client = ROOT / "tests/cli/openai_client.mjs"
            return subprocess.run([node, client, folder, address, str(server.pid)], timeout=300).returncode
        finally:
            server.kill()
            server.wait()


sys.exit(main())
