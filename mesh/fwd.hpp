// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::mesh {
class Cell;
class DeviceBuffers;
class DeviceExecutor;
class Engine;
class Graph;
class Layer;
class Mesh;
class GraphRecorder;
class NetworkBuilder;
class State;
class StepHook;
class WeightStore;
struct Command;
struct LayerSpec;
struct MeshOptions;
struct NetworkSpec;
}  // namespace weft::mesh
