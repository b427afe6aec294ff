// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::mesh {
class Cell;
class DeviceMirror;
class DeviceRun;
class Engine;
class Graph;
class Layer;
class Mesh;
class MirrorStream;
class NetworkBuilder;
class State;
class StepHook;
class WeightStore;
struct Control;
struct LayerSpec;
struct MeshOptions;
struct NetworkSpec;
}  // namespace weft::mesh
