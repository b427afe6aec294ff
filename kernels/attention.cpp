// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/attention.cpp"
#include "kernels/attention.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/simd/attention-inl.hpp"

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

/// Destination of one session's results.
struct Outcome {
  float *y, *largest, *sums;
};

#if WEFT_ISA_IS_SCALAR

// The definition, a token and a head at a time.
void attend(const AttentionShape& shape, const HeadKeys& all, const float* q, const Outcome& to, std::size_t head,
            float* scores) noexcept {
  const std::size_t n = shape.head_dim;
  for (std::size_t t = 0; t < shape.tokens; ++t) {
    const Range seen = all.keys.visible(t);
    const std::size_t at = (t * shape.heads + head) * n;
    float largest = -std::numeric_limits<float>::infinity();
    for (std::size_t j = seen.lo; j < seen.hi; ++j) {
      scores[j] = score(q + at, all.key(j), n) * shape.scale;
      if (shape.score_cap != 0) scores[j] = shape.score_cap * math::tanh(scores[j] * (1.0f / shape.score_cap));
      largest = scores[j] > largest ? scores[j] : largest;
    }
    largest += 0.0f;
    float lane[kLanes] = {};
    for (std::size_t j = seen.lo; j < seen.hi; ++j) {
      scores[j] = math::exp(scores[j] - largest);
      lane[j % kLanes] += scores[j];
    }
    for (std::size_t half = kLanes / 2; half != 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
    to.largest[head * shape.tokens + t] = largest;
    to.sums[head * shape.tokens + t] = lane[0];
    for (std::size_t i = 0; i < n; ++i)
      to.y[at + i] =
          sum_over_keys(
              seen, [&](std::size_t j) { return scores[j]; }, [&](std::size_t j) { return all.value(j)[i]; }) /
          lane[0];
  }
}

void attend_session(const AttentionShape& shape, const Keys& keys, const float* q, const float* k, const float* v,
                    const float* state, float* next_state, const Outcome& to, float* workspace) noexcept {
  for (std::size_t head = 0; head < shape.heads; ++head) {
    const std::size_t kv = head / (shape.heads / shape.kv_heads);
    attend(shape, HeadKeys(shape, keys, k, v, state, kv), q, to, head, workspace);
  }
  if (next_state) detail::append(shape, keys, k, v, state, next_state);
}

#else

/// Keys and values of one kv head as tiles read them: rings of panels of 16 keys.
struct Stored {
  const float *key_panels, *value_rows;
  std::size_t first_panel, count;
  bool is_tame;  // all values are finite
};

/// Rows of a tile: tokens of one head, or, of a call of one token, heads of one group.
struct TileRow {
  std::size_t token, head;
};

void attend_tile(const AttentionShape& shape, const Keys& keys, const Stored& stored, const TileRow* row,
                 std::size_t rows, const float* q, const Outcome& to, const AttentionWorkspace& space) noexcept {
  const std::size_t n = shape.head_dim, width = round_up(n, kPanelWidth);
  Range seen[kTileRows] = {};
  for (std::size_t r = 0; r < rows; ++r) {
    seen[r] = keys.visible(row[r].token);
    pack_tile_row(q + (row[r].token * shape.heads + row[r].head) * n, n, rows, r, space.queries);
  }
  const Range all{seen[0].lo, seen[rows - 1].hi};
  tile_scores(space.queries, rows, n, stored.key_panels, stored.first_panel, stored.count, all, space.scores);
  const float scale = shape.score_cap == 0 ? shape.scale : 1.0f;
  for (std::size_t r = 0; r < rows && shape.score_cap != 0; ++r) cap_scores({space.scores, rows, r, all}, shape);
  // In two rounds, so that one row's last steps do not keep the next one waiting.
  float largest[kTileRows], sums[kTileRows];
  for (std::size_t r = 0; r < rows; ++r) largest[r] = largest_of({space.scores, rows, r, all}, seen[r], scale);
  for (std::size_t r = 0; r < rows; ++r) {
    sums[r] = exponentials_of({space.scores, rows, r, all}, scale, largest[r]);
    to.largest[row[r].head * shape.tokens + row[r].token] = largest[r];
    to.sums[row[r].head * shape.tokens + row[r].token] = sums[r];
  }
  tile_sums(space.scores, rows, stored.value_rows, stored.first_panel, stored.count, width, seen, stored.is_tame,
            space.carry, space.total);
  const FloatTag d;
  for (std::size_t r = 0; r < rows; ++r) {
    const float* const from = space.total + r * width;
    float* const y = to.y + (row[r].token * shape.heads + row[r].head) * n;
    const FloatVec sum = hn::Set(d, sums[r]);
    ForEachVector(n, [&](auto load, auto store) HWY_ATTR { store(hn::Div(hn::Add(load(from), hn::Zero(d)), sum), y); });
  }
}

void attend_session(const AttentionShape& shape, const Keys& keys, const float* q, const float* k, const float* v,
                    const float* state, float* next_state, const Outcome& to, float* workspace) noexcept {
  const AttentionWorkspace space(shape, workspace);
  const Ring ring(shape);
  const std::size_t n = shape.head_dim, group = shape.heads / shape.kv_heads, width = round_up(n, kPanelWidth);
  // One token reads the ring that it has just joined; several read a copy, as the last ones may overwrite what the
  // first ones see.
  const bool reads_ring = next_state && shape.tokens == 1;
  if (reads_ring) detail::append_position(shape, keys, next_state);
  for (std::size_t kv = 0; kv < shape.kv_heads; ++kv) {
    Stored stored{space.key_panels, space.value_rows, 0, detail::most_keys(shape) / kPanelWidth, true};
    if (reads_ring) {
      // Head by head, so that what is copied is still near when it is read.
      detail::append_head(shape, keys, kv, k, v, state, next_state);
      stored = {next_state + ring.head(kv), next_state + ring.values(kv), ring.slot(keys.base()) / kPanelWidth,
                ring.slots / kPanelWidth, true};
    } else {
      const HeadKeys all(shape, keys, k, v, state, kv);
      pack_key_panels(
          keys.first(), keys.end(), n, [&](std::size_t j) { return all.key(j); }, space.key_panels);
      for (std::size_t j = keys.first(); j < keys.end(); ++j)
        pack_row({all.value(j), 1}, n, width, space.value_rows + j * width);
      stored.is_tame = all_finite(space.value_rows + keys.first() * width, (keys.end() - keys.first()) * width);
    }
    TileRow row[kTileRows];
    if (shape.tokens == 1) {
      const detail::EvenParts tiles(group, kTileRows);
      for (std::size_t i = 0; i < tiles.parts; ++i) {
        const std::size_t first = tiles.begin(i), rows = tiles.begin(i + 1) - first;
        for (std::size_t r = 0; r < rows; ++r) row[r] = {0, kv * group + first + r};
        attend_tile(shape, keys, stored, row, rows, q, to, space);
      }
      continue;
    }
    const detail::EvenParts tiles(shape.tokens, kTileRows);
    for (std::size_t head = kv * group; head < (kv + 1) * group; ++head)
      for (std::size_t i = 0; i < tiles.parts; ++i) {
        const std::size_t first = tiles.begin(i), rows = tiles.begin(i + 1) - first;
        for (std::size_t r = 0; r < rows; ++r) row[r] = {first + r, head};
        attend_tile(shape, keys, stored, row, rows, q, to, space);
      }
  }
  if (next_state && !reads_ring) detail::append(shape, keys, k, v, state, next_state);
}

#endif

void attention(const AttentionShape& shape, const AttentionOperands& operands, const MatrixView& y,
               const MatrixView& statistics, const MatrixView& next_state, float* workspace) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < y.rows; ++b) {
    const float* const state = shape.context ? operands.state.row(b) : nullptr;
    attend_session(shape, Keys(shape, state), operands.q.row(b), operands.k.row(b), operands.v.row(b), state,
                   shape.context ? next_state.row(b) : nullptr,
                   {y.row(b), statistics.row(b), statistics.row(b) + shape.heads * shape.tokens}, workspace);
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kAttention = WEFT_DISPATCH(attention);
}  // namespace

void attention(const AttentionShape& shape, const AttentionOperands& operands, const MatrixView& y,
               const MatrixView& statistics, const MatrixView& next_state, float* workspace) noexcept {
  kAttention.get()(shape, operands, y, statistics, next_state, workspace);
}

std::size_t attention_workspace_size(const AttentionShape& shape) noexcept {
  return detail::AttentionWorkspace(shape, nullptr).size();
}

}  // namespace weft::kernels
#endif
