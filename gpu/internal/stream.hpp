// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/recorder.hpp"
#include "gpu/internal/value_sources.hpp"
#include "gpu/memory.hpp"
#include "gpu/vulkan_stream.hpp"

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft::gpu {

using kernels::Activation;
using kernels::AttentionGradients;
using kernels::AttentionOperands;
using kernels::AttentionShape;
using kernels::AxisOrder;
using kernels::BinaryOp;
using kernels::ConstMatrixView;
using kernels::ConstPanels;
using kernels::ConstWeight;
using kernels::GatedBlock;
using kernels::GatedWeights;
using kernels::MatrixView;
using kernels::Panels;
using kernels::Pool;
using kernels::Rope;
using kernels::Weight;
using kernels::Window;

namespace ops = kernels::ops;

/// The operations, each as a dispatch or a few. A family of them has a file gpu/stream_<family>.cpp, with a
/// Stream::lower(op) for each; one that is missing does not link.
class Stream final : public VulkanStream {
 public:
  explicit Stream(std::unique_ptr<Recorder> recorder);

  Result<std::uint64_t> submit() override { return recorder_->submit(); }
  Status wait(std::uint64_t number) override { return recorder_->wait(number); }
  Status status() const override { return recorder_->status(); }
  void upload(const void* from, std::size_t bytes, void* to) override { recorder_->upload(from, bytes, to); }
  Status download(const void* from, std::size_t bytes, void* to) override {
    return recorder_->download(from, bytes, to);
  }
  Status begin_capture() override {
    turn_ropes();
    last_linear_ = {};
    sources_.forget();
    return recorder_->begin_capture();
  }
  void leave_out_unread(std::vector<MemoryAccess> memory) override { recorder_->leave_out_unread(std::move(memory)); }
  Result<std::shared_ptr<CommandGraph>> end_capture() override {
    turn_ropes();
    return recorder_->end_capture();
  }
  Status run(const std::shared_ptr<CommandGraph>& graph, std::uint64_t times) override {
    return recorder_->run(graph, times);
  }
  void track_accesses(std::vector<MemoryAccess>* to, bool instead) override {
    accesses_ = to;
    only_tracks_ = instead;
  }
  void flag_not_finite(const ConstMatrixView& x, std::uint32_t* word, std::uint32_t bits) override;
  void skip_steps(const std::uint32_t* word) override { skip_ = address(word); }
  bool run_only_if(const float* word) override;
  void flag_all_zero(const float* x, std::size_t n, std::uint32_t* word, std::uint32_t bits) override;
  void transfer(const void* from, std::size_t bytes, void* to) override { recorder_->transfer(from, bytes, to); }
  std::uint64_t dispatches() const noexcept override { return recorder_->dispatches(); }
  std::uint64_t barriers() const noexcept override { return recorder_->barriers(); }

  /// Records one operation, or only says what it touches.
  template <class Op>
  ops::Answer<Op> accept(const Op& op) {
    if (accesses_) track(op);
    if (accesses_ && only_tracks_) return ops::Answer<Op>();
    if constexpr (!std::is_same_v<Op, ops::Rope> && !std::is_same_v<Op, ops::Attention>) turn_ropes();
    return lower(op);
  }

 private:
#define WEFT_OP(name, Type) ops::Answer<ops::Type> lower(const ops::Type& op);
#include "kernels/ops.def"
#undef WEFT_OP
  template <class Op>
  void track(const Op& op);
  void touch(const Range& range, bool is_written);
  /// Reports the accesses of a flag about `from` where they are tracked; true where nothing else is to be done.
  bool is_only_tracked(const Range& from, const std::uint32_t* word);

  struct QuantizedOnDevice {
    Range codes, scales;
  };
  /// x as int8, in scratch memory, in the order in which codes of a type are unpacked (gpu/shaders/code_dots.glsl).
  QuantizedOnDevice quantize(const ConstMatrixView& x, const ConstWeight& w);
  /// The same as the operands that a layer's shader reads, and where they stand.
  template <class Push>
  Range quantized_into(Push& push, const ConstMatrixView& x, const ConstWeight& w);
  /// Weights of 32 and 64 bits as float32, in scratch memory; others as they are.
  ConstWeight dequantized(const ConstWeight& w);
  /// As float32 at an address of memory for its panels.
  ConstWeight dequantized(const ConstWeight& w, std::uint64_t at);
  /// Lets the last captured linear layer set the flags itself when x is its output. False: another operation wrote x.
  bool flag_in_last_linear(const ConstMatrixView& x, std::uint32_t* word, std::uint32_t bits);
  /// Lets the last captured linear layer, one of few rows, also add what stands beside its output. False: it cannot.
  bool add_in_last_linear(const ops::Binary& op);
  /// RowDots into every s_stride-th place.
  void record_dots(const ConstMatrixView& a, const ConstMatrixView& b, float* s, std::size_t s_stride);
  void record_transposed(const ConstWeight& w, const ConstMatrixView& dy, const MatrixView& dx, bool absolute);
  /// Captured turns in place that the attention behind them may do itself.
  struct PendingRope {
    ops::Rope op;
    Range angles;  // none: the rope's own table
  };
  /// Angles of a call's positions, in scratch memory; no range where the rope's table has them.
  Range angles_of(const ops::Rope& op);
  void turn(const PendingRope& rope);
  void turn_ropes();
  /// True when those that wait turn just this attention's q and k.
  bool are_ropes_of(const ops::Attention& op) const;
  /// Memory of one operation, 0 after a failure; see Recorder::scratch.
  std::uint64_t scratch(std::size_t bytes) { return recorder_->scratch(bytes); }

  std::unique_ptr<Recorder> recorder_;
  std::vector<MemoryAccess>* accesses_ = nullptr;  // while accesses are tracked
  bool only_tracks_ = false;
  struct LastLinear {
    const float* y = nullptr;
    std::size_t rows = 0, cols = 0, stride = 0, dispatch = 0;  // counted from 1
    /// The kernel by which it would also add; none: it cannot.
    std::optional<GraphCapture::Kernel> adds = std::nullopt;
    bool is_aligned = false;
  } last_linear_;
  ValueSources sources_;
  std::vector<PendingRope> ropes_;
  std::uint64_t skip_ = 0;       // a word that holds optimiser steps back
  bool is_conditional_ = false;  // operations that come depend on a word
  Buffer finite_;                // a word that is_finite asks for
};

}  // namespace weft::gpu
