#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Any environment of Gymnasium's shape for `weft live NETWORK --environment "python3 gymnasium_environment.py ID"`.

Of actions that are discrete or one array of real values, which are kept within its bounds, and of observations that are
one array. The protocol: docs/formats/environment.md.
"""
import json
import math
import sys


def described(space):
    """An action: one of so many, or so many real values."""
    return {"actions": int(space.n)} if hasattr(space, "n") else {"values": math.prod(space.shape)}


def action_of(space, given):
    if hasattr(space, "n"):
        return given
    import numpy
    return numpy.clip(numpy.array(given).reshape(space.shape), space.low, space.high).astype(space.dtype)


def serve(environment, lines=sys.stdin, out=sys.stdout):
    for line in lines:
        request = json.loads(line)
        if request["request"] == "describe":
            size = len(environment.reset(seed=0)[0].ravel())
            answer = {"protocol": 1, "observations": size, **described(environment.action_space)}
        elif request["request"] == "reset":  # an episode is a function of both numbers, so that it can be come back to
            seen, _ = environment.reset(seed=(request["seed"] * 1000003 + request["episode"]) % 2 ** 31)
            answer = {"observation": seen.ravel().tolist()}
        elif request["request"] == "step":
            action = action_of(environment.action_space, request["action"])
            seen, reward, terminated, truncated, _ = environment.step(action)
            answer = {"observation": seen.ravel().tolist(), "reward": float(reward), "terminated": bool(terminated),
                      "truncated": bool(truncated)}
        else:  # close
            break
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    import gymnasium
    serve(gymnasium.make(sys.argv[1]))
