// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/columns.hpp"
#include "gpu/internal/cut.hpp"
#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/rows_operands.inc"

#include "kernels/statistics.hpp"

namespace weft::gpu {
namespace {

struct ReducePush {
  WEFT_REDUCE_OPERANDS(WEFT_MEMBER)
};
struct ColumnsPush {
  WEFT_COLUMNS_OPERANDS(WEFT_MEMBER)
};
struct FinitePush {
  WEFT_FINITE_OPERANDS(WEFT_MEMBER)
};
enum Question : std::uint32_t { WEFT_FINITE_NUMBERS(WEFT_ENUMERATOR) };
constexpr std::size_t kPartOfZeros = std::size_t{1} << 20;  // small enough for tests to see several

enum Reduce : std::uint32_t { WEFT_REDUCE_NUMBERS(WEFT_ENUMERATOR) };
static_assert(kernels::kStatistics == 4);

/// s: `width` values of 4 bytes for each row.
void record(Recorder& recorder, Reduce operation, const ConstMatrixView& a, const ConstMatrixView& b, const void* s,
            std::size_t s_stride, std::size_t width, float threshold = 0.0f) {
  static const Shader& kernel = shader("reduce");
  const ReducePush push{address(a.data), address(b.data), address(s),
                        word(a.rows),    word(a.cols),    word(a.stride),
                        word(b.stride),  word(s_stride),  static_cast<float>(a.cols),
                        threshold};
  recorder.dispatch(kernel, {operation}, push, {groups_of(a.rows, kLaneGroupRows), 1}, {range(a), range(b)},
                    {range_of_rows(s, a.rows, width, s_stride)});
}

}  // namespace

void Stream::lower(const ops::RowSums& op) { record(*recorder_, kSums, op.a, {}, op.s, 1, 1); }
void Stream::lower(const ops::RowDots& op) { record(*recorder_, kDots, op.a, op.b, op.s, 1, 1); }
void Stream::record_dots(const ConstMatrixView& a, const ConstMatrixView& b, float* s, std::size_t s_stride) {
  record(*recorder_, kDots, a, b, s, s_stride, 1);
}
void Stream::lower(const ops::RowArgmax& op) { record(*recorder_, kArgmax, op.a, {}, op.index, 1, 1); }
void Stream::lower(const ops::LinkBudget& op) { record(*recorder_, kLinkBudget, op.a, op.t, op.factor, 1, 1); }
void Stream::lower(const ops::RowStatistics& op) {
  record(*recorder_, kStatistics, op.x, {}, op.y.data, op.y.stride, kernels::kStatistics, op.threshold);
}

void record_columns(Recorder& recorder, Columns what, const ConstMatrixView& x, const ConstMatrixView& dy,
                    const float* mean, const float* scale, float* dgain, float* dbias) {
  if (dy.rows == 0) return;
  static const Shader& kernel = shader("columns");
  const ColumnsPush push{address(x.data), address(dy.data), address(mean), address(scale), address(dgain),
                         address(dbias),  word(dy.rows),    word(dy.cols), word(x.stride), word(dy.stride)};
  const std::size_t by_row = dy.rows * sizeof(float), by_column = dy.cols * sizeof(float);
  recorder.dispatch(kernel, {static_cast<std::uint32_t>(what)}, push, groups_for(dy.cols, 128),
                    {range(x), range(dy), range(mean, by_row), range(scale, by_row)},
                    {range(dgain, by_column), range(dbias, by_column)});
}

void Stream::lower(const ops::ColumnAccumulate& op) {
  record_columns(*recorder_, Columns::sums, {}, op.a, nullptr, nullptr, nullptr, op.s);
}

void Stream::flag_not_finite(const ConstMatrixView& x, std::uint32_t* flags, std::uint32_t bits) {
  if (is_only_tracked(range(x), flags) || flag_in_last_linear(x, flags, bits)) return;
  turn_ropes();
  static const Shader& kernel = shader("finite");
  for_parts(x.rows, x.cols, [&](const Cut& p) {
    const ConstMatrixView part = part_of(x, p);
    const FinitePush push{address(part.data), address(flags), word(p.rows), word(p.cols), word(x.stride), bits};
    recorder_->dispatch(kernel, {kNotFinite}, push, groups_for_long(p.rows * p.cols, 256), {range(part)}, {},
                        {range(flags, sizeof bits)});
  });
}

void Stream::flag_all_zero(const float* x, std::size_t n, std::uint32_t* flags, std::uint32_t bits) {
  if (is_only_tracked(range(x, n * sizeof(float)), flags)) return;
  turn_ropes();
  static const Shader& kernel = shader("finite");
  // One dispatch has to see all: whole parts in rows, and what is left of them in columns.
  const FinitePush push{address(x), address(flags), word(n / kPartOfZeros), word(n % kPartOfZeros), word(kPartOfZeros),
                        bits};
  recorder_->dispatch(kernel, {kAllZero}, push, {}, {range(x, n * sizeof(float))}, {}, {range(flags, sizeof bits)});
}

bool Stream::lower(const ops::IsFinite& op) {
  if (!finite_.bytes()) {
    auto word_of = recorder_->heap().allocate(sizeof(std::uint32_t), "the answer of is_finite");
    if (!word_of) return recorder_->fail_with(word_of.error()), false;
    finite_ = std::move(*word_of);
  }
  std::uint32_t found = 0;
  recorder_->upload(&found, sizeof found, finite_.data());
  flag_not_finite(op.x, finite_.data<std::uint32_t>(), 1);
  return recorder_->download(finite_.data(), sizeof found, &found).has_value() && found == 0;
}

}  // namespace weft::gpu
