#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Any environment of Gymnasium's shape for `weft live NETWORK --environment "python3 gymnasium_environment.py ID"`.

Of discrete actions and observations that are one array. The protocol: docs/formats/environment.md.
"""
import json
import sys


def serve(environment, lines=sys.stdin, out=sys.stdout):
    for line in lines:
        request = json.loads(line)
        if request["request"] == "describe":
            size = len(environment.reset(seed=0)[0].ravel())
            answer = {"protocol": 1, "observations": size, "actions": int(environment.action_space.n)}
        elif request["request"] == "reset":  # an episode is a function of both numbers, so that it can be come back to
            seen, _ = environment.reset(seed=(request["seed"] * 1000003 + request["episode"]) % 2 ** 31)
            answer = {"observation": seen.ravel().tolist()}
        elif request["request"] == "step":
            seen, reward, terminated, truncated, _ = environment.step(request["action"])
            answer = {"observation": seen.ravel().tolist(), "reward": float(reward), "terminated": bool(terminated),
                      "truncated": bool(truncated)}
        else:  # close
            break
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    import gymnasium
    serve(gymnasium.make(sys.argv[1]))
