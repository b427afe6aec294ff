# SPDX-License-Identifier: Apache-2.0

import numpy as np
import weft

x, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32), np.array([0, 1, 1, 0])
network = weft.Network.chain(2, [{"type": "dense", "out": 16, "activation": "tanh"}, {"type": "dense", "out": 2}])
mesh = weft.Mesh(network, threads=1)
learner = weft.Learner(mesh, rule="fw_dtp")
for _ in range(500):
    learner.learn({"x": x}, {"y": y})
print(learner.predict({"x": x})["y"].argmax(1))
