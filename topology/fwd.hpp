// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::topology {
class Machine;
class NodeBuffer;
class NodeMemory;
class ThreadBinding;
struct CoreInfo;
struct Workload;
struct MachineInfo;
struct NodeInfo;
struct Plan;
struct Quota;
struct CoreAssignment;
}  // namespace weft::topology
