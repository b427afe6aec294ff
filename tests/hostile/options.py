# SPDX-License-Identifier: Apache-2.0
"""Options and their environment variables: what is no value is a usage error that shows option, value and range."""
import math, os
from harness import *

# option, value, what the message holds
NUMBERS = [("--lr", v, ("1e-09", "1000")) for v in ("nan", "NaN", "inf", "-inf", "1e999", "-1", "0", "1e-10", "0x10", "1,5", "fast", "1e", "٣")]
NUMBERS += [("--held-out", v, ("0 to 0.99",)) for v in ("nan", "-0.1", "1", "1e400", "50%")]
NUMBERS += [("--hang-limit", v, ("0 to 1e+06",)) for v in ("nan", "inf", "-1")]
NUMBERS += [("--epochs", v, ("1 to 1073741824",)) for v in ("0", "-1", "1e3", "1.0", "0x10", "2147483648", "99999999999999999999999", "+5", " 5", "5 ")]
NUMBERS += [("--seed", v, ("0 to 18446744073709551615",)) for v in ("-1", "18446744073709551616", "99999999999999999999999", "1.5", "0b1")]
NUMBERS += [(o, v, ("1 to 18446744073709551615",)) for o in ("--max-samples", "--checkpoint-every") for v in ("-1", "0", "18446744073709551616", "0x10")]
NUMBERS += [("--threads", v, ("0 to 4096",)) for v in ("-1", "4097", "4294967296")] + [("--keep", v, ("1 to 100000",)) for v in ("0", "-1")]


@case("run: no number:", *[(f"{o} {v}", o, v, r) for o, v, r in NUMBERS])
def number(weft, folder, _, option, value, ranges):
    net = prepare(folder)
    more = ["--state", f"{folder}/h"] if option in ("--keep", "--checkpoint-every") else []
    for arguments in ((option, value), (f"{option}={value}",)):
        weft.refuses(2, [option, f"'{value}'", *ranges], "run", net, *arguments, *more)
    variable = "WEFT_ARG_" + option[2:].upper().replace("-", "_")
    weft.refuses(2, [variable, f"'{value}'", *ranges], "run", net, *more, env={variable: value})
    expect(not os.path.exists(f"{folder}/h"), "a data directory was made")


@case("other verbs: no number:", ("top", "--interval", "nan"), ("top", "--interval", "0"), ("sweep", "--seconds", "nan"),
      ("sweep", "--seconds", "1e9"), ("replay", "--threads", "-1"), ("diff", "--threads", "1e1"))
def other_number(weft, folder, verb, option, value):
    files = [prepare(folder)] * (2 if verb == "diff" else 1)
    weft.refuses(2, [option, f"'{value}'"], verb, *files, option, value)


@case("session detach: no number:", ("-1",), ("18446744073709551616",), ("nan",))
def session(weft, folder, value):
    weft.refuses(2, ["--session", f"'{value}'"], "session", "detach", entity(weft, folder), "--session", value, "-o", f"{folder}/s")


@case("a leading zero is decimal:", ("010",), ("0000000000000000000000010",))
def octal(weft, folder, value):
    net = prepare(folder)
    plain = weft("run", net, "--max-samples", "10")
    expect(state_hash(weft("run", net, "--max-samples", value)) == state_hash(plain), "another number")
    expect("samples     10 " in plain.out, "not ten", (), plain)


@case("seeds that differ are runs that differ")
def seeds(weft, folder):
    net = prepare(folder)
    hashes = {state_hash(weft("run", net, "--seed", seed)) for seed in ("0", "1", "18446744073709551614", "18446744073709551615")}
    expect(len(hashes) == 4, f"{len(hashes)} of 4 hashes")


EMPTY = ("--state", "--checkpoint", "--socket", "--log", "--device", "--save", "--data", "--rule", "--lr", "--seed", "--durability",
         "--dtype", "--epochs")


@case("an empty value is none:", *[(o,) for o in EMPTY])
def empty(weft, folder, option):
    net = prepare(folder)
    weft.refuses(2, option, "run", net, option, "")
    variable = "WEFT_ARG_" + option[2:].upper().replace("-", "_")
    weft.refuses(2, variable, "run", net, env={variable: ""})


@case("an empty file name:", ("hash",), ("inspect",), ("run",), ("replay",), ("top",))
def empty_file(weft, folder, verb):
    weft.refuses(2, "empty", verb, "")


@case("a flag in the environment is yes or no:", *[(v, v in ("1", "true")) for v in ("1", "true", "0", "false")])
def flag(weft, folder, value, is_yes):
    out = weft("hash", prepare(folder), env={"WEFT_ARG_JSON": value})
    expect(out.exit == 0 and out.out.startswith("{") == is_yes, "read otherwise", (value,), out)


@case("a flag in the environment that is neither:", *[(v,) for v in ("2", "yes", "TRUE", "on", "nein", "-1", "")])
def no_flag(weft, folder, value):
    weft.refuses(2, ["WEFT_ARG_JSON", value], "hash", prepare(folder), env={"WEFT_ARG_JSON": value})


@case("a variable that no option reads:", ("WEFT_ARG_EPOHCS", "WEFT_ARG_EPOCHS"), ("WEFT_ARG_PASSES", "WEFT_ARG_EPOCHS"),
      ("WEFT_ARG_HELDOUT", "WEFT_ARG_HELD_OUT"), ("WEFT_ARG_LEARNING_RATE", "WEFT_ARG_LR"), ("WEFT_ARG_xyzzy", "no option"))
def unread(weft, folder, variable, meant):
    weft.refuses(2, [variable, meant], "run", prepare(folder), env={variable: "1"})
    expect(weft("--version", env={variable: "1"}).exit == 0, "no help any more")


@case("a variable of another verb is no mistake")
def of_another(weft, folder):
    expect(weft("hash", prepare(folder), env={"WEFT_ARG_EPOCHS": "many"}).exit == 0, "refused")


@case("the word that was meant:", ("run N --passes 5", "'--passes'", "--epochs"), ("run N --epohcs 5", "'--epohcs'", "--epochs"),
      ("run N --learning-rate=1", "--learning-rate", "--lr"), ("run N --heldout 0.1", "--heldout", "--held-out"),
      ("run N --gpu", "--gpu", "--device"), ("helpp", "'helpp'", "weft help"), ("hlep", "'hlep'", "weft help"),
      ("train N", "'train'", "weft run"), ("inspekt N", "'inspekt'", "weft inspect"), ("quantize N", "'quantize'", "weft morph"),
      ("--verion", "--verion", "--version"), ("infer N", "'infer'", "weft predict"), ("test N", "'test'", "weft eval"), ("init", "'init'", "weft new"),
      ("predict N t.csv", "--data is required", "did you mean --data t.csv?"), ("run N N", "one argument too many", "weft run --help"),
      ("run --helpp", "'--helpp'", "no option"), ("predict N --dat t.csv", "'--dat'", "--data"), ("morph N -o o --dtpe int8", "'--dtpe'", "--dtype"),
      ("run N --rule bckprop", "'bckprop'", "did you mean 'backprop'?"), ("run N --dtype fp8_e4m4", "did you mean 'fp8_e4m3'?"),
      ("run N --lr", "--lr: a value is missing"), ("run N --save", "--save: a value is missing"), ("session", "a verb is required"))
def meant(weft, folder, line, *names):
    net = prepare(folder)
    weft.refuses(2, names, *[net if word == "N" else word for word in line.split()])


@case("help is a word too:", (("help",), ("--help",)), (("help", "run"), ("run", "--help")))
def help_words(weft, folder, asked, usual):
    out = weft(*asked)
    expect(out.exit == 0 and out.out == weft(*usual).out and "Usage" in out.out, "no help", (asked,), out)


@case("a directory where a file is meant")
def directory(weft, folder):
    net = prepare(folder)
    expect(weft("run", net, "--state", f"{folder}/agent").exit == 0, "no data directory")
    weft.refuses(5, [f"{folder}/agent", "weft replay"], "inspect", f"{folder}/agent")


@case("what the machine refuses names itself:", ("HWLOC_XMLFILE", "/nowhere.xml", 0),
      ("HWLOC_XMLFILE", "/dev/null", 3))
def hwloc(weft, folder, variable, value, exit):
    out = weft("hash", prepare(folder), env={variable: value})
    expect(out.exit == exit, f"exit {out.exit}, not {exit}", (), out)
    if exit:
        expect(f"{variable}={value}" in out.err and not out.err.startswith("weft: error: " + folder), "not named", (), out)


@case("the file at fault is named first:", ("data", "d.csv"), ("cell", "d.csv"), ("directory", "agent"), ("network", "n.json"),
      ("learning", "n.json: learning.rule"), ("stream", "n.json: stream.epochs"))
def blame(weft, folder, what, name):
    net = prepare(folder)
    data, directory = f"{folder}/d.csv", f"{folder}/agent"
    write(data, {"data": "1,2\n3,4\n5", "cell": "1,2,3,4,0\n1,2,x,4,0\n"}.get(what, table()))
    more = []
    if what == "directory":
        os.makedirs(f"{directory}/ckpt-1")
        write(f"{directory}/ckpt-1/manifest.json", "no manifest")
        more = ["--state", directory]
    if what == "network":
        net = write(f"{folder}/n.json", json.dumps(network(outputs={"y": [0, 0, 9, 0]})))
    if what in ("learning", "stream"):
        section = {"learning": {"rule": "bp"}, "stream": {**network()["stream"], "epochs": 1 << 32}}[what]
        net = write(f"{folder}/n.json", json.dumps(network(**{what: section})))
    out = weft("run", net, "--data", data, *more)
    expect(out.exit in (3, 5) and f"weft: error: {folder}/{name}" in out.err, "another is blamed", (), out)


# Options, exit code and whether there is something to say; the same bits everywhere, so the same words.
@case("a run that diverges says what to do:", ("--lr 1000 --rule gap", 1), ("--lr 200 --rule gap", 1), ("--lr 1000", 0), ("--lr 50", 0))
def diverged(weft, folder, options, exit):
    write(f"{folder}/g.csv", table(rows=600))
    out = weft("run", write(f"{folder}/n.json", json.dumps(network())), "--epochs", 3, *options.split())
    expect(out.exit == exit, f"exit {out.exit}, not {exit}", (options,), out)
    if exit == 0:
        losses = [float(x) for x in re.search(r"^loss +([0-9.a-z]+) held out, ([0-9.a-z]+) of", out.out, re.M).groups()]
        expect(not all(loss <= math.log(3) for loss in losses), "no divergence: the row is wrong", (options,), out)
        expect("weft: warning: " in out.err, "no warning although the loss is above that of guessing", (options,), out)
    expect("learning rate" in out.err and "try --lr" in out.err, "not told what to do", (options,), out)


@case("a run that learns is told nothing of the kind:", ("--lr 0.05",), ("--lr 0.5",))
def converged(weft, folder, options):
    write(f"{folder}/g.csv", table(rows=600))
    out = weft("run", write(f"{folder}/n.json", json.dumps(network())), "--epochs", 3, *options.split())
    expect(out.exit == 0 and "warning" not in out.err, "a warning", (options,), out)
    expect(float(re.search(r"^loss +([0-9.]+) held out", out.out, re.M)[1]) < math.log(3), "nothing was learned", (options,), out)
