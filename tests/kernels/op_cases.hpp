// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/op_stream.hpp"
#include "kernels/weight.hpp"

#include "core/aligned_buffer.hpp"
#include "core/philox.hpp"

#include "tests/kernels/oracle.hpp"
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// Every operation of kernels/ops.def as rows of one table (op_cases.cpp): operands of many shapes, of normal numbers
/// and with special values among them. What runs the rows is written once for all operations: the oracle, every
/// instruction set, threads and in place in op_cases_test.cpp, a device in tests/gpu/op_cases_test.cpp.
namespace weft::kernels::testing_ops {

/// Says where an operand lies that the table has at `host`.
using Place = std::function<void*(const void* host)>;

/// Memory of an operand.
struct Block {
  AlignedBuffer<float> initial;
  bool is_bits = false;       // no numbers: all bits count, of a NaN too
  bool is_workspace = false;  // whatever is left there
};

/// An operation with its operands.
struct Case {
  std::string name;
  OpId op = kNoOp;
  std::vector<Block> blocks;
  /// Runs the operation on operands elsewhere; false where it answers so.
  std::function<bool(OpStream& stream, const Place& at)> run;
  /// Marks what the operation says that it writes, in floats: mark(address, count).
  std::function<void(const std::function<void(const void*, std::size_t)>& mark)> written;
  /// The oracle's bits, and its values in binary64 with bounds, from the initial operands; inside FlushSubnormals.
  std::function<void(Expected<float>& to)> exact;
  std::function<void(Expected<Bounded>& to)> bounded;
  /// An output that may be an input, as blocks; equal if it may not.
  std::size_t output = 0, input = 0;
  std::size_t workspace_stride = 0;  // floats; there are kMostThreads of them
  /// False: a device need not run it as a program too, which compiles its shaders once more.
  bool as_graph = true;

  /// The block that holds an address; blocks.size() if none does.
  std::size_t block_of(const void* address) const;
};
inline constexpr std::size_t kMostThreads = 7;

/// Operands where they lie elsewhere.
struct At {
  const Place& place;
  template <class T>
  T* operator()(T* host) const {
    return static_cast<T*>(place(host));
  }
  MatrixView operator()(const MatrixView& m) const { return {(*this)(m.data), m.rows, m.cols, m.stride}; }
  Panels operator()(const Panels& p) const { return {(*this)(p.data), p.out, p.in}; }
  ConstWeight operator()(ConstWeight w) const {
    w.codes = place(w.codes), w.scales = place(w.scales), w.zero_points = place(w.zero_points), w.nan_free = nullptr;
    return w;
  }
};

/// Cases for the host are many and small; those for a device fewer.
enum class Breadth { host, device };

/// The rows of an operation.
std::vector<Case> cases_of(OpId op, Breadth breadth);

/// Makes the operands of a case.
class Operands {
 public:
  Operands(std::uint64_t seed, bool special)
      : special_(special), one_in_(seed % 2 ? 4 : 60), random_(seed, 0, RandomPurpose::test) {}

  /// Rows apart, junk between them; where the case is special, many or few of them special values.
  MatrixView matrix(std::size_t rows, std::size_t cols, std::size_t gap = 5);
  /// Rows of given values, without gaps.
  MatrixView matrix_of(std::size_t rows, std::size_t cols, const std::vector<float>& values);
  float* values(std::size_t count);
  float* values_of(const std::vector<float>& values);
  Panels panels(std::size_t out, std::size_t in, float padding = 0.0f);
  /// Panels to be added to, whose padding must stay as it is, whatever it is.
  Panels sums(std::size_t out, std::size_t in) { return panels(out, in, 7.0f); }
  /// Panels for operations whose weights must be finite.
  Panels finite_panels(std::size_t out, std::size_t in);
  /// Random codes: of finite numbers, or any where the case is special and they need not be finite.
  ConstWeight weight(const Encoding& encoding, std::size_t out, std::size_t in, Activations activations,
                     bool is_finite = false);
  /// Memory for a quantized weight, of bits that no encoder leaves.
  Weight filler(const Encoding& encoding, std::size_t out, std::size_t in);
  std::uint32_t* labels(std::size_t count, std::size_t below);
  std::uint64_t* words(const std::vector<std::uint64_t>& words);
  float* workspace(std::size_t floats);
  RandomStream& random() { return random_; }
  bool is_special() const { return special_; }

  /// The case of `op`, whose operands were made here. `output` may be `input`; null: it may not.
  template <class Op>
  Case make(const std::string& name, const Op& op, const void* output = nullptr, const void* input = nullptr) {
    Case made;
    made.name = std::string(kernels::name(kIdOf<Op>)) + name + (special_ ? ", special" : "");
    made.op = kIdOf<Op>;
    made.blocks = std::move(blocks_);
    made.workspace_stride = workspace_stride_;
    if (output) made.output = made.block_of(output), made.input = made.block_of(input);
    made.run = [op](OpStream& stream, const Place& at) {
      Op there = op;
      ops::for_each_operand(there, [&](ops::Access, auto& operand, const ops::Extent&) {
        using T = std::remove_reference_t<decltype(operand)>;
        ops::for_each_pointer(operand, [&](auto& pointer) {
          pointer = static_cast<std::remove_reference_t<decltype(pointer)>>(at(pointer));
        });
        if constexpr (std::is_same_v<T, ConstWeight>)
          operand.nan_free = static_cast<const std::uint8_t*>(at(operand.nan_free));  // a hint to the host's kernels
      });
      if constexpr (std::is_void_v<ops::Answer<Op>>)
        return stream.run(there), true;
      else
        return stream.run(there);
    };
    made.exact = [op](Expected<float>& to) { expect(op, to); };
    made.bounded = [op](Expected<Bounded>& to) { expect(op, to); };
    made.written = [op](const auto& mark) {
      ops::for_each_operand(op, [&](ops::Access access, const auto& operand, const ops::Extent& extent) {
        if (access == ops::Access::write || access == ops::Access::update) mark_written(operand, extent, mark);
      });
    };
    return made;
  }

  /// The case of several operations on operands that were made here: run(stream, At).
  template <class Run>
  Case chain(const std::string& name, const Run& run) {
    Case made;
    made.name = name, made.blocks = std::move(blocks_);
    made.run = [run](OpStream& stream, const Place& place) { return run(stream, At{place}), true; };
    return made;
  }

 private:
  using Mark = std::function<void(const void*, std::size_t)>;
  template <class T>
  static void mark_written(const T& operand, const ops::Extent& extent, const Mark& mark) {
    if constexpr (ops::Matrix<T>) {
      for (std::size_t i = 0; operand.data && i < operand.rows; ++i) mark(operand.row(i), operand.cols);
    } else if constexpr (ops::PanelMatrix<T>) {
      for (std::size_t o = 0; operand.data && o < operand.out; ++o)
        for (std::size_t k = 0; k < operand.in; ++k) mark(operand.data + panel_index(operand.in, o, k), 1);
    } else if constexpr (std::is_pointer_v<T>) {
      if (operand) mark(operand, (extent.rows * extent.cols * sizeof *operand + 3) / 4);
    } else {
      const WeightBytes bytes = weight_bytes(Encoding(operand.dtype, operand.granularity), operand.out, operand.in);
      mark(operand.codes, (bytes.codes + 3) / 4), mark(operand.scales, (bytes.scales + 3) / 4),
          mark(operand.zero_points, (bytes.zero_points + 3) / 4);
    }
  }
  float* add(AlignedBuffer<float> values, bool is_bits = false);
  float draw();

  bool special_;
  std::uint32_t one_in_;
  RandomStream random_;
  std::vector<Block> blocks_;
  std::size_t workspace_stride_ = 0, weights_ = 0;
};

}  // namespace weft::kernels::testing_ops
