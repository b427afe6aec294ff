// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::gpu {
struct DeviceInfo;
struct DeviceOptions;
struct SelfTest;
struct MemoryUse;
class Device;
class Buffer;
class FaultInjection;
class Memory;
class CommandGraph;
class VulkanStream;
enum class Op : int;
enum class DriverFault : int;
}  // namespace weft::gpu
