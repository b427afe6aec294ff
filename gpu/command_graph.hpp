// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/fwd.hpp"

#include <cstdint>

namespace weft::gpu {

/// Operations recorded once, to be run many times on the stream that captured them. Made by VulkanStream::end_capture;
/// owns its commands, operand tables and scratch. Memory that the operations touch must outlive it.
/// @thread as its stream; may be dropped at any time: the stream keeps it until the device is done with it
class CommandGraph {
 public:
  virtual ~CommandGraph() = default;
  /// Shaders that were recorded, one for each dispatch that the operations would have been outside of a command graph.
  virtual std::uint64_t operations() const noexcept = 0;
  /// Dispatches that they became: one for all of a level that run the same shader over as many groups.
  virtual std::uint64_t dispatches() const noexcept = 0;
  /// Steps that wait for the one before: barriers between them, and one.
  virtual std::uint64_t levels() const noexcept = 0;
  /// Device memory of its tables and scratch.
  virtual std::uint64_t bytes() const noexcept = 0;
};

}  // namespace weft::gpu
