// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/command_graph.hpp"
#include "gpu/fwd.hpp"

#include "kernels/op_stream.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft::gpu {

/// Device memory that an operation reads or writes.
struct MemoryAccess {
  std::uint64_t begin = 0, end = 0;
  bool is_written = false;
};

/// Records operations for the device, which runs them in order, with the bits of the CPU. Operands' pointers are
/// addresses on the device (gpu::Buffer::data). Nothing runs before `submit`; nothing is known to have run before
/// `wait`.
///
/// Operations return nothing, so failures stay: after the first one nothing more is recorded, and submit, wait,
/// download return it. By then the device has done what was submitted before, or is lost: memory may be given back.
/// @thread one thread at a time
class VulkanStream : public kernels::OpStream {
 public:
  /// Hands what was recorded to the device and returns its number; `wait(number)` waits for it and all before.
  virtual Result<std::uint64_t> submit() = 0;
  virtual Status wait(std::uint64_t number) = 0;
  /// Both.
  Status finish();
  /// The first failure: a lost device, memory that ran out.
  virtual Status status() const = 0;

  /// Copies into device memory, in order with the operations. `from` may change at once: it is staged.
  virtual void upload(const void* from, std::size_t bytes, void* to) = 0;
  /// Copies out of device memory; submits and waits.
  virtual Status download(const void* from, std::size_t bytes, void* to) = 0;
  /// Copies within device memory by the driver's own command, between places that do not overlap, each in one buffer.
  virtual void transfer(const void* from, std::size_t bytes, void* to) = 0;

  /// From here on operations are captured for a command graph, not recorded. Copies (upload, download, transfer),
  /// submitting and running command graphs meanwhile is a failure (internal).
  virtual Status begin_capture() = 0;
  /// In the command graph that is being captured, what only leaves results in this memory that no later operation of
  /// the graph reads is left out: nobody reads them after a run.
  virtual void leave_out_unread(std::vector<MemoryAccess> memory) = 0;
  /// The captured command graph: independent operations run concurrently, equal ones in one dispatch. Its bits are
  /// those of the operations one by one.
  /// @error  what made a captured operation fail; internal: without begin_capture
  virtual Result<std::shared_ptr<CommandGraph>> end_capture() = 0;
  /// Runs it `times` times, in order with everything recorded before and after on this stream, which captured it.
  /// Keeps it alive until done. As for operations, nothing is known to have run before `submit` and `wait`.
  virtual Status run(const std::shared_ptr<CommandGraph>& graph, std::uint64_t times = 1) = 0;
  using OpStream::run;

  /// Optimiser steps recorded from here on (optimizer_step, optimizer_factors) leave everything as it is where `*word`
  /// is not 0 when they run: whether there is something to learn may be known to the device only. Null: they always
  /// run.
  virtual void skip_steps(const std::uint32_t* word) = 0;
  /// word[0] |= bits, on the device, when an element of x is infinite or NaN.
  virtual void flag_not_finite(const kernels::ConstMatrixView& x, std::uint32_t* word, std::uint32_t bits) = 0;
  /// word[0] |= bits when all n floats are 0, of either sign or subnormal. Such flags are or-ed atomically: there is no
  /// order among them, so many may share a word.
  virtual void flag_all_zero(const float* x, std::size_t n, std::uint32_t* word, std::uint32_t bits) = 0;

  /// From here on what operations touch is added to `to`, row by row where rows have gaps between them; null: no
  /// longer. `instead`: and the operations do nothing else, also while a command graph is captured.
  virtual void track_accesses(std::vector<MemoryAccess>* to, bool instead = false) = 0;

  /// Recorded so far: commands that run shaders, and barriers between them.
  virtual std::uint64_t dispatches() const noexcept = 0;
  virtual std::uint64_t barriers() const noexcept = 0;

 protected:
  using OpStream::OpStream;
};

}  // namespace weft::gpu
