// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/ops/list.hpp"

#include "core/assert.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace weft::kernels {

class OpStream;

/// The functions of one kind of stream, by operation.
struct OpTable {
  using Run = void (*)(OpStream& stream, const void* op, void* answer);
  std::array<Run, kOpCount> run;
};

/// Stream of a layer's operations. A layer never knows the device it runs on: it hands over operations (values:
/// kernels/ops/), which the CPU stream runs at once and a GPU stream records. Pointers are addresses in the stream's
/// memory.
///
/// Every result is a function of the operands and their shapes alone (docs/numerics.md): not of thread count, vector
/// width, batch size, batch neighbours or device. Shapes are the caller's promise, checked when a mesh is built.
/// In-place use (output equal to an input, same stride) is allowed where an operation says so; partial overlap never
/// is.
/// @thread one thread at a time per stream; it runs inside FlushSubnormals
class OpStream {
 public:
  virtual ~OpStream() = default;

  template <class Op>
  requires(kIdOf<Op> != kNoOp) ops::Answer<Op> run(const Op& op) {
    WEFT_DCHECK(ops::fits(op), "operands of '" + std::string(name(kIdOf<Op>)) + "' have other shapes than it says");
    const OpTable::Run function = table_->run[static_cast<std::size_t>(kIdOf<Op>)];
    if constexpr (std::is_void_v<ops::Answer<Op>>) {
      function(*this, &op, nullptr);
    } else {
      ops::Answer<Op> answer{};
      function(*this, &op, &answer);
      return answer;
    }
  }
  // By name: stream.softmax({x, temperature, y}).
#define WEFT_OP(name, Type) \
  ops::Answer<ops::Type> name(const ops::Type& op) { return run(op); }
#include "kernels/ops.def"
#undef WEFT_OP

  /// True where an operation has run when it returns, so that what it wrote can be read. What is computed may then hang
  /// on it, as long as the results are those of a stream that computes all.
  virtual bool computes_at_once() const noexcept { return false; }
  /// Of a stream that records operations before values are known: those that follow run where the float at `word`, in
  /// the stream's memory, is not 0 when their turn comes, and leave all as it is elsewhere. Null: they run in any case
  /// again. False: the stream cannot leave operations out, or is already within such a part; all run.
  virtual bool run_only_if([[maybe_unused]] const float* word) { return false; }

  static constexpr double kMoved = ops::kMoved, kComputed = ops::kComputed;
  /// Calls body(stream, first, count) for parts of [0, units), in order or at once on several threads: what a part
  /// computes must hang on no other, and parts write apart. `work` is what all of them cost, in multiply-adds. For
  /// chains of small operations over rows that stand alone.
  template <class Body>
  void split(std::size_t units, double work, Body&& body) {
    split_units(
        units, work,
        [](void* context, OpStream& stream, std::size_t first, std::size_t count) {
          (*static_cast<std::remove_reference_t<Body>*>(context))(stream, first, count);
        },
        const_cast<void*>(static_cast<const void*>(std::addressof(body))));
  }

  /// Within a part of `split`: the workspace of its own behind the one handed to the whole.
  virtual float* workspace_of(float* workspace) const noexcept { return workspace; }

 protected:
  /// @param table  op_table<S>() of the class S that derives from it
  explicit OpStream(const OpTable& table) noexcept : table_(&table) {}
  OpStream(const OpStream&) = default;
  OpStream& operator=(const OpStream&) = default;

  using Body = void (*)(void* context, OpStream& stream, std::size_t first, std::size_t count);
  virtual void split_units(std::size_t units, double, Body body, void* context) { body(context, *this, 0, units); }

 private:
  const OpTable* table_;
};

/// A row of `op_table`: runs `Stream::accept(op)`.
template <class Stream, class Op>
void run_op(OpStream& stream, const void* op, [[maybe_unused]] void* answer) {
  Stream& own = static_cast<Stream&>(stream);
  if constexpr (std::is_void_v<ops::Answer<Op>>)
    own.accept(*static_cast<const Op*>(op));
  else
    *static_cast<ops::Answer<Op>*>(answer) = own.accept(*static_cast<const Op*>(op));
}

/// A table of `Stream::accept(op)`, one for each operation.
template <class Stream>
const OpTable& op_table() noexcept {
  static constexpr OpTable kTable{{
#define WEFT_OP(name, Type) &run_op<Stream, ops::Type>,
#include "kernels/ops.def"
#undef WEFT_OP
  }};
  return kTable;
}

}  // namespace weft::kernels
