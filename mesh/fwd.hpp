// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>

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
class Snapshot;
class SessionSnapshot;
class State;
class StepRule;
class WeightStore;
struct Command;
struct Mail;
struct Message;
struct DeviceStatistics;
struct LayerSpec;
struct MeshOptions;
struct MeshAccess;
struct NetworkSpec;
enum class SnapshotWeights : int;

/// Index of a node: input ports first, sorted by name, then layers in grid index order.
using NodeId = std::uint32_t;
using CommandMessage = std::shared_ptr<Command>;
using MailPointer = std::shared_ptr<Mail>;
using MessagePointer = std::shared_ptr<Message>;
}  // namespace weft::mesh
