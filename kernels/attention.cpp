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

/// One session's operands.
struct Session {
  Session(const AttentionShape& shape, const AttentionOperands& from, const MatrixView& to, std::size_t b) noexcept
      : q(from.q.row(b)),
        k(from.k.row(b)),
        v(from.v.row(b)),
        state(shape.context ? from.state.row(b) : nullptr),
        next_state(shape.context ? to.row(b) : nullptr),
        mask(shape.has_mask() ? from.mask.row(b) : nullptr),
        keys(shape, state),
        joins_ring(next_state && detail::joins_ring(shape, keys)) {}
  const float *q, *k, *v, *state;
  float* next_state;
  const float* mask;
  Keys keys;
  bool joins_ring;
};

/// Units of a kv head: the tokens of each of its query heads.
std::size_t units_of_kv_head(const AttentionShape& shape) noexcept {
  return shape.heads / shape.kv_heads * shape.tokens;
}
/// True of all units of one: nobody else reads its ring.
bool is_whole(const AttentionShape& shape, Range units) noexcept {
  return units.hi - units.lo == units_of_kv_head(shape);
}

/// Calls visit(head, tokens) for the heads that units of a session belong to.
template <class Visit>
void for_heads(const AttentionShape& shape, Range units, const Visit& visit) noexcept {
  for (std::size_t at = units.lo; at < units.hi;) {
    const std::size_t head = at / shape.tokens, end = std::min(units.hi, (head + 1) * shape.tokens);
    visit(head, Range{at - head * shape.tokens, end - head * shape.tokens});
    at = end;
  }
}

#if WEFT_ISA_IS_SCALAR

// The definition, a token and a head at a time.
void attend(const AttentionShape& shape, const HeadKeys& all, const Session& of, const Outcome& to, std::size_t head,
            Range tokens, float* scores) noexcept {
  const std::size_t n = shape.head_dim;
  const float* const q = of.q;
  for (std::size_t t = tokens.lo; t < tokens.hi; ++t) {
    const Range seen = all.keys.visible(t);
    const std::size_t at = (t * shape.heads + head) * n;
    float largest = -std::numeric_limits<float>::infinity();
    for (std::size_t j = seen.lo; j < seen.hi; ++j) {
      scores[j] = score(q + at, all.key(j), n) * shape.scale;
      if (shape.score_cap != 0) scores[j] = shape.score_cap * math::tanh(scores[j] * (1.0f / shape.score_cap));
      if (of.mask) scores[j] = masked(scores[j], mask_of(shape, of.mask, head, t)[j * shape.mask.key]);
      largest = scores[j] > largest ? scores[j] : largest;
    }
    largest += 0.0f;
    if (of.mask) largest = largest_seen(largest);
    float lane[kLanes] = {};
    for (std::size_t j = seen.lo; j < seen.hi; ++j) {
      scores[j] = math::exp(scores[j] - largest);
      lane[j % kLanes] += scores[j];
    }
    for (std::size_t half = kLanes / 2; half != 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
    if (of.mask) lane[0] = sum_of_seen(lane[0]);
    to.largest[head * shape.tokens + t] = largest;
    to.sums[head * shape.tokens + t] = lane[0];
    for (std::size_t i = 0; i < n; ++i)
      to.y[at + i] =
          sum_over_keys(
              seen, [&](std::size_t j) { return scores[j]; }, [&](std::size_t j) { return all.value(j)[i]; }) /
          lane[0];
  }
}

// Learns last: what it reads is never what the call learns (detail::joins_ring).
void attend_head(const AttentionShape& shape, const Session& of, std::size_t kv, Range units, const Outcome& to,
                 float* workspace) noexcept {
  const HeadKeys all(shape, of.keys, of.k, of.v, of.state, kv);
  for_heads(shape, units, [&](std::size_t head, Range tokens) { attend(shape, all, of, to, head, tokens, workspace); });
  if (of.joins_ring && is_whole(shape, units))
    detail::append_head(shape, of.keys, kv, of.k, of.v, of.state, of.next_state);
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
                 std::size_t rows, const float* q, const MaskRows& masks, const Outcome& to,
                 const AttentionWorkspace& space) noexcept {
  const std::size_t n = shape.head_dim, width = round_up(n, kPanelWidth);
  Range seen[kTileRows] = {};
  for (std::size_t r = 0; r < rows; ++r) {
    seen[r] = keys.visible(row[r].token);
    pack_tile_row(q + (row[r].token * shape.heads + row[r].head) * n, n, rows, r, space.queries);
  }
  const Range all{seen[0].lo, seen[rows - 1].hi};
  tile_scores(space.queries, rows, n, stored.key_panels, stored.first_panel, stored.count, all, space.scores,
              shape.tokens == 1);
  float scale = shape.score_cap == 0 ? shape.scale : 1.0f;
  for (std::size_t r = 0; r < rows && shape.score_cap != 0; ++r) cap_scores({space.scores, rows, r, all}, shape);
  if (masks.are_there()) {
    for (std::size_t r = 0; r < rows; ++r)
      mask_scores({space.scores, rows, r, all}, scale, masks.of(row[r].head, row[r].token));
    scale = 1.0f;
  }
  // In two rounds, so that one row's last steps do not keep the next one waiting.
  float largest[kTileRows], sums[kTileRows];
  for (std::size_t r = 0; r < rows; ++r) {
    largest[r] = largest_of({space.scores, rows, r, all}, seen[r], scale);
    if (masks.are_there()) largest[r] = largest_seen(largest[r]);
  }
  for (std::size_t r = 0; r < rows; ++r) {
    sums[r] = exponentials_of({space.scores, rows, r, all}, scale, largest[r]);
    if (masks.are_there()) sums[r] = sum_of_seen(sums[r]);
    to.largest[row[r].head * shape.tokens + row[r].token] = largest[r];
    to.sums[row[r].head * shape.tokens + row[r].token] = sums[r];
  }
  tile_sums(space.scores, rows, stored.value_rows, stored.first_panel, stored.count, width, seen, stored.is_tame,
            space.carry, space.total, shape.tokens == 1);
  const FloatTag d;
  for (std::size_t r = 0; r < rows; ++r) {
    const float* const from = space.total + r * width;
    float* const y = to.y + (row[r].token * shape.heads + row[r].head) * n;
    const FloatVec sum = hn::Set(d, sums[r]);
    ForEachVector(n, [&](auto load, auto store) HWY_ATTR { store(hn::Div(hn::Add(load(from), hn::Zero(d)), sum), y); });
  }
}

/// Asks memory for the lines that a token's key and value will be written to.
void prefetch_slot(const AttentionShape& shape, const Session& of, std::size_t kv) noexcept {
  if (shape.tokens != 1 || !of.joins_ring) return;
  const Ring ring(shape);
  const std::size_t slot = ring.slot(of.keys.position());
  const float* const key = of.next_state + ring.key(kv, slot);
  for (std::size_t i = 0; i < shape.head_dim; ++i) __builtin_prefetch(key + i * kPanelWidth, 1);
  const float* const value = of.next_state + ring.value(kv, slot);
  for (std::size_t i = 0; i < ring.value_width; i += kPanelWidth) __builtin_prefetch(value + i, 1);
}

/// A head's keys and values in the ring that the call's own have joined.
Stored in_ring(const AttentionShape& shape, const Session& of, std::size_t kv) noexcept {
  const Ring ring(shape);
  const float* const values = of.next_state + ring.values(kv);
  bool is_tame = true;
  if (shape.tokens > 1) {
    const std::size_t first = ring.slot(of.keys.base() + of.keys.first()), count = of.keys.end() - of.keys.first();
    const std::size_t before = std::min(count, ring.slots - first);
    is_tame = all_finite(values + first * ring.value_width, before * ring.value_width) &&
              all_finite(values, (count - before) * ring.value_width);
  }
  return {of.next_state + ring.head(kv), values, ring.slot(of.keys.base()) / kPanelWidth, ring.slots / kPanelWidth,
          is_tame};
}

/// A copy of them, where the last of a call's tokens may overwrite what its first ones see.
Stored in_workspace(const AttentionShape& shape, const Session& of, std::size_t kv,
                    const AttentionWorkspace& space) noexcept {
  const HeadKeys all(shape, of.keys, of.k, of.v, of.state, kv);
  const std::size_t n = shape.head_dim, width = round_up(n, kPanelWidth), first = of.keys.first(), end = of.keys.end();
  pack_key_panels(
      first, end, n, [&](std::size_t j) { return all.key(j); }, space.key_panels);
  for (std::size_t j = first; j < end; ++j) pack_row({all.value(j), 1}, n, width, space.value_rows + j * width);
  return {space.key_panels, space.value_rows, 0, detail::most_keys(shape) / kPanelWidth,
          all_finite(space.value_rows + first * width, (end - first) * width)};
}

void attend_head(const AttentionShape& shape, const Session& of, std::size_t kv, Range units, const Outcome& to,
                 float* workspace) noexcept {
  const AttentionWorkspace space(shape, workspace);
  // Head by head, so that what is written is still near when it is read.
  if (of.joins_ring && is_whole(shape, units))
    detail::append_head(shape, of.keys, kv, of.k, of.v, of.state, of.next_state);
  const Stored stored = of.joins_ring ? in_ring(shape, of, kv) : in_workspace(shape, of, kv, space);
  const MaskRows masks(shape, of.mask, space.mask);
  TileRow row[kTileRows];
  const auto attend = [&](Range all, const auto& row_at) {
    const detail::EvenParts tiles(all.hi - all.lo, kTileRows);
    for (std::size_t i = 0; i < tiles.parts; ++i) {
      const std::size_t first = all.lo + tiles.begin(i), rows = all.lo + tiles.begin(i + 1) - first;
      for (std::size_t r = 0; r < rows; ++r) row[r] = row_at(first + r);
      attend_tile(shape, of.keys, stored, row, rows, of.q, masks, to, space);
    }
  };
  if (shape.tokens == 1) return attend(units, [](std::size_t head) { return TileRow{0, head}; });
  for_heads(shape, units, [&](std::size_t head, Range tokens) {
    attend(tokens, [&](std::size_t token) { return TileRow{token, head}; });
  });
}

#endif

void attention_share(const AttentionShape& shape, const AttentionOperands& operands, const MatrixView& y,
                     const MatrixView& statistics, const MatrixView& next_state, AttentionShare share,
                     float* workspace) noexcept {
  WEFT_ISA_RAN();
  const std::size_t of_kv = units_of_kv_head(shape), of_row = shape.kv_heads * of_kv;
  for (std::size_t at = share.first; at < share.last;) {
    const std::size_t b = at / of_row, kv = at % of_row / of_kv;
    const std::size_t end = std::min(share.last, b * of_row + (kv + 1) * of_kv);
#if !WEFT_ISA_IS_SCALAR
    if (end < share.last)
      prefetch_slot(shape, Session(shape, operands, next_state, end / of_row), end % of_row / of_kv);
#endif
    attend_head(shape, Session(shape, operands, next_state, b), kv, {at - b * of_row, end - b * of_row},
                {y.row(b), statistics.row(b), statistics.row(b) + shape.heads * shape.tokens}, workspace);
    at = end;
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kAttentionShare = WEFT_DISPATCH(attention_share);
}  // namespace

void attention_share(const AttentionShape& shape, const AttentionOperands& operands, const MatrixView& y,
                     const MatrixView& statistics, const MatrixView& next_state, AttentionShare share,
                     float* workspace) noexcept {
  kAttentionShare.get()(shape, operands, y, statistics, next_state, share, workspace);
}

void attention(const AttentionShape& shape, const AttentionOperands& operands, const MatrixView& y,
               const MatrixView& statistics, const MatrixView& next_state, float* workspace) noexcept {
  attention_share(shape, operands, y, statistics, next_state, {0, attention_units(shape, y.rows)}, workspace);
  attention_end(shape, operands, next_state);
}

std::size_t attention_workspace_size(const AttentionShape& shape) noexcept {
  return detail::AttentionWorkspace(shape, nullptr).size();
}

}  // namespace weft::kernels
#endif
