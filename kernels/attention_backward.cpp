// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/attention_backward.cpp"
#include "kernels/foreach_isa.hpp"
#include "kernels/simd/attention-inl.hpp"

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

/// One session's rows of the operands, errors and results.
struct Session {
  const float *q, *y, *largest, *sums, *dy;
  float *dq, *dk, *dv, *dstate;
  const float* mask;
  float* dmask;
};

/// Of a mask that some heads or tokens share, their gradients come to what was there.
void clear_mask(const AttentionShape& shape, float* dmask) noexcept {
  for (std::size_t head = 0; head < (shape.mask.head ? shape.heads : 1); ++head)
    for (std::size_t t = 0; t < (shape.mask.token ? shape.tokens : 1); ++t)
      for (std::size_t j = 0; j < shape.tokens; ++j)
        dmask[head * shape.mask.head + t * shape.mask.token + j * shape.mask.key] = 0.0f;
}

/// Gives a session's sums over tokens away, never as -0: a key of the call owns its gradient, one of the state adds to
/// dstate.
inline void give_key(const AttentionShape& shape, const Keys& keys, const Session& session, std::size_t kv,
                     std::size_t j, const float* dk, const float* dv) noexcept {
  const std::size_t n = shape.head_dim;
  if (j >= keys.fresh()) {
    const std::size_t at = ((j - keys.fresh()) * shape.kv_heads + kv) * n;
    for (std::size_t i = 0; i < n; ++i) {
      session.dk[at + i] = dk[i] + 0.0f;
      session.dv[at + i] = dv[i] + 0.0f;
    }
  } else if (session.dstate) {
    const Ring ring(shape);
    const std::size_t slot = ring.slot(keys.base() + j);
    float* const to_key = session.dstate + ring.key(kv, slot);
    float* const to_value = session.dstate + ring.value(kv, slot);
    for (std::size_t i = 0; i < n; ++i) {
      to_key[i * kPanelWidth] += dk[i] + 0.0f;
      to_value[i] += dv[i] + 0.0f;
    }
  }
}

#if WEFT_ISA_IS_SCALAR

// sum of dy y over a head, rule R2.
inline float row_dot(const float* a, const float* b, std::size_t n) noexcept {
  return lane_sum(n, [&](float sum, std::size_t i) { return std::fma(a[i], b[i], sum); });
}

// The definition. The workspace holds a row of exponentials and one of slopes, and sums of dk and dv of a kv head.
void backward_session(const AttentionShape& shape, const Keys& keys, const HeadKeys& all, const Session& session,
                      float* workspace) noexcept {
  const std::size_t n = shape.head_dim, group = shape.heads / shape.kv_heads, most = detail::most_keys(shape);
  float *const p = workspace, *const slope = p + most, *const dk = slope + most, *const dv = dk + most * n;
  std::fill_n(dk, 2 * most * n, 0.0f);
  for (std::size_t head = all.kv * group; head < (all.kv + 1) * group; ++head)
    for (std::size_t t = 0; t < shape.tokens; ++t) {
      const Range seen = keys.visible(t);
      const std::size_t at = (t * shape.heads + head) * n;
      const float largest = session.largest[head * shape.tokens + t];
      const float share = 1.0f / session.sums[head * shape.tokens + t];
      const float mean = row_dot(session.dy + at, session.y + at, n);
      for (std::size_t j = seen.lo; j < seen.hi; ++j) {
        float s = score(session.q + at, all.key(j), n) * shape.scale, u = 0.0f;
        if (shape.score_cap != 0) {
          u = math::tanh(s * (1.0f / shape.score_cap));
          s = shape.score_cap * u;
        }
        const std::size_t number = head * shape.mask.head + t * shape.mask.token + j * shape.mask.key;
        if (session.mask) s = masked(s, session.mask[number]);
        p[j] = math::exp(s - largest) * share;
        slope[j] = p[j] * (score(session.dy + at, {all.value(j), 1}, n) - mean);
        if (session.dmask) session.dmask[number] += slope[j];
        slope[j] *= shape.scale;
        if (shape.score_cap != 0) slope[j] *= std::fma(-u, u, 1.0f);
      }
      for (std::size_t i = 0; i < n; ++i)
        session.dq[at + i] = sum_over_keys(
            seen, [&](std::size_t j) { return slope[j]; },
            [&](std::size_t j) {
              const Strided key = all.key(j);
              return key.at[i * key.step];
            });
      for (std::size_t j = seen.lo; j < seen.hi; ++j)
        for (std::size_t i = 0; i < n; ++i) {
          dk[j * n + i] = std::fma(slope[j], session.q[at + i], dk[j * n + i]);
          dv[j * n + i] = std::fma(p[j], session.dy[at + i], dv[j * n + i]);
        }
    }
  for (std::size_t j = keys.first(); j < keys.end(); ++j)
    give_key(shape, keys, session, all.kv, j, dk + j * n, dv + j * n);
}

#else

HWY_INLINE float row_dot(const float* a, const float* b, std::size_t n) {
  return LaneSum(n, [&](FloatVec sum, auto load) HWY_ATTR { return hn::MulAdd(load(a), load(b), sum); });
}

/// Row r's scores become probabilities, its products with the errors the slopes of the scores; both 0 where it does not
/// see.
HWY_INLINE void slopes_of(const RowScores& scores, const RowScores& slopes, Range seen, const AttentionShape& shape,
                          float largest, float share, float mean) {
  const FloatTag d;
  const FloatVec by = hn::Set(d, shape.scale), top = hn::Set(d, largest), part = hn::Set(d, share),
                 middle = hn::Set(d, mean);
  const std::ptrdiff_t away = slopes.first - scores.first;
  if (shape.score_cap != 0) {
    const FloatVec cap = hn::Set(d, shape.score_cap);
    const float inverse = 1.0f / shape.score_cap;
    scores.each([&](float* at, std::size_t, std::size_t) HWY_ATTR {
      const FloatVec u = capped_shares(hn::LoadU(d, at), shape.scale, inverse);
      const FloatVec p = hn::Mul(formulas::exact_exp(hn::Sub(hn::Mul(cap, u), top)), part);
      hn::StoreU(p, d, at);
      const FloatVec slope = hn::Mul(hn::Mul(p, hn::Sub(hn::LoadU(d, at + away), middle)), by);
      hn::StoreU(hn::Mul(slope, hn::NegMulAdd(u, u, hn::Set(d, 1.0f))), d, at + away);
    });
    scores.hide(seen, 0.0f);
    slopes.hide(seen, 0.0f);
    return;
  }
  scores.each([&](float* at, std::size_t, std::size_t) HWY_ATTR {
    const FloatVec e = formulas::exact_exp(hn::Sub(hn::Mul(hn::LoadU(d, at), by), top));
    const FloatVec p = hn::Mul(e, part);
    hn::StoreU(p, d, at);
    hn::StoreU(hn::Mul(hn::Mul(p, hn::Sub(hn::LoadU(d, at + away), middle)), by), d, at + away);
  });
  scores.hide(seen, 0.0f);
  slopes.hide(seen, 0.0f);
}

/// The same of a row with a mask; its gradients, of keys shape.mask.key apart, are added to `dmask` where that is not
/// null.
HWY_INLINE void masked_slopes_of(const RowScores& scores, const RowScores& slopes, Range seen,
                                 const AttentionShape& shape, float largest, float share, float mean, const float* mask,
                                 float* bends, float* dmask) {
  const FloatTag d;
  const FloatVec by = hn::Set(d, shape.scale), top = hn::Set(d, largest), part = hn::Set(d, share),
                 middle = hn::Set(d, mean), cap = hn::Set(d, shape.score_cap);
  const float inverse = 1.0f / shape.score_cap;
  const std::ptrdiff_t away = slopes.first - scores.first;
  const bool is_capped = shape.score_cap != 0;
  scores.each([&](float* at, std::size_t, std::size_t key) HWY_ATTR {
    FloatVec s = hn::LoadU(d, at);
    if (is_capped) {
      const FloatVec u = capped_shares(s, shape.scale, inverse);
      hn::StoreU(hn::NegMulAdd(u, u, hn::Set(d, 1.0f)), d, bends + key);
      s = hn::Mul(cap, u);
    } else {
      s = hn::Mul(s, by);
    }
    const FloatVec p = hn::Mul(formulas::exact_exp(hn::Sub(Masked(s, hn::LoadU(d, mask + key)), top)), part);
    hn::StoreU(p, d, at);
    hn::StoreU(hn::Mul(p, hn::Sub(hn::LoadU(d, at + away), middle)), d, at + away);
  });
  scores.hide(seen, 0.0f);
  slopes.hide(seen, 0.0f);
  slopes.each([&](float* at, std::size_t, std::size_t key) HWY_ATTR {
    // Hidden keys add +0, and no sum is -0.
    for (std::size_t i = 0; dmask && i < kVectorLanes && key + i < shape.tokens; ++i)
      dmask[(key + i) * shape.mask.key] += at[i];
    const FloatVec slope = hn::Mul(hn::LoadU(d, at), by);
    hn::StoreU(is_capped ? hn::Mul(slope, hn::LoadU(d, bends + key)) : slope, d, at);
  });
  if (is_capped) slopes.hide(seen, 0.0f);  // where bends may be NaN
}

/// Rows of a tile's queries or errors: the first operand of their scores, and, where they fit into a chunk, the second
/// one of the keys' sums.
struct TileRows {
  const float* at;
  std::size_t step;
};

/// dk and dv of the keys that a tile of tokens sees: token after token onto what the sums hold. Where queries and
/// errors are finite, tokens that do not see a key take part with 0.
void add_to_keys(const AttentionShape& shape, const Keys& keys, std::size_t token, std::size_t rows, Range seen,
                 const TileRows& queries, const TileRows& errors, const AttentionWorkspace& space) noexcept {
  const std::size_t width = round_up(shape.head_dim, kPanelWidth);
  const auto within = [&](std::size_t t) { return std::clamp(t, token, token + rows) - token; };
  bool is_tame = true;
  for (std::size_t r = 0; r < rows; ++r)
    is_tame =
        is_tame && all_finite(queries.at + r * queries.step, width) && all_finite(errors.at + r * errors.step, width);
  for (std::size_t chunk = seen.lo / kChunk; chunk * kChunk < seen.hi; ++chunk) {
    const std::size_t begin = std::max(seen.lo, chunk * kChunk), end = std::min(seen.hi, (chunk + 1) * kChunk);
    const detail::EvenParts tiles(end - begin, kTileRows);
    for (std::size_t i = 0; i < tiles.parts; ++i) {
      const std::size_t j = begin + tiles.begin(i), count = tiles.begin(i + 1) - tiles.begin(i);
      Range readers[kTileRows] = {};
      for (std::size_t r = 0; r < count && !is_tame; ++r) {
        const Range all = keys.seen_by(j + r);
        readers[r].lo = within(all.lo);
        readers[r].hi = within(all.hi);
      }
      const std::size_t at = chunk * rows * kChunk + j % kChunk;
      const auto add = [&](const float* a, const TileRows& b, float* c) {
        const Product job{a + at, b.at, 0,    b.step,  kPanelWidth, c,           c,
                          width,  0,    rows, nullptr, Start::kept, Finish::keep};
        if (is_tame)
          multiply<true>(job, count, width / kPanelWidth);
        else
          multiply_seen<true>(job, count, width / kPanelWidth, readers, false);
      };
      add(space.slopes, queries, space.dk + j * width);
      add(space.scores, errors, space.dv + j * width);
    }
  }
}

/// Packs a tile's rows, `from` them heads * head_dim apart, both ways.
TileRows pack_tile(const AttentionShape& shape, const float* from, std::size_t rows, float* chunks,
                   float* whole) noexcept {
  const std::size_t n = shape.head_dim, width = round_up(n, kPanelWidth), stride = shape.heads * n;
  const bool fits = n <= kChunk;
  for (std::size_t r = 0; r < rows; ++r) {
    pack_tile_row(from + r * stride, n, rows, r, chunks);
    if (fits)
      for (std::size_t i = n; i < width; ++i) chunks[r * kChunk + i] = 0.0f;
    else
      pack_row({from + r * stride, 1}, n, width, whole + r * width);
  }
  return fits ? TileRows{chunks, kChunk} : TileRows{whole, width};
}

void backward_tile(const AttentionShape& shape, const Keys& keys, const Session& session, const MaskRows& masks,
                   std::size_t head, std::size_t token, std::size_t rows, bool tame_keys,
                   const AttentionWorkspace& space) noexcept {
  const std::size_t n = shape.head_dim, width = round_up(n, kPanelWidth),
                    panels = detail::most_keys(shape) / kPanelWidth;
  const auto at = [&](std::size_t r) { return ((token + r) * shape.heads + head) * n; };
  Range seen[kTileRows] = {};
  for (std::size_t r = 0; r < rows; ++r) seen[r] = keys.visible(token + r);
  const TileRows queries = pack_tile(shape, session.q + at(0), rows, space.queries, space.query_rows);
  const TileRows errors = pack_tile(shape, session.dy + at(0), rows, space.errors, space.error_rows);
  const Range all{seen[0].lo, seen[rows - 1].hi};
  tile_scores(space.queries, rows, n, space.key_panels, 0, panels, all, space.scores);
  tile_scores(space.errors, rows, n, space.value_panels, 0, panels, all, space.slopes);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t statistic = head * shape.tokens + token + r;
    const RowScores scores(space.scores, rows, r, all), slopes(space.slopes, rows, r, all);
    const float largest = session.largest[statistic], share = 1.0f / session.sums[statistic],
                mean = row_dot(session.dy + at(r), session.y + at(r), n);
    if (!masks.are_there()) {
      slopes_of(scores, slopes, seen[r], shape, largest, share, mean);
      continue;
    }
    float* const dmask =
        session.dmask ? session.dmask + head * shape.mask.head + (token + r) * shape.mask.token : nullptr;
    masked_slopes_of(scores, slopes, seen[r], shape, largest, share, mean, masks.of(head, token + r), space.bends,
                     dmask);
  }
  tile_sums(space.slopes, rows, space.key_rows, 0, panels, width, seen, tame_keys, space.carry, space.total);
  for (std::size_t r = 0; r < rows; ++r) {
    const float* const from = space.total + r * width;
    ForEachVector(n, [&](auto load, auto store)
                         HWY_ATTR { store(hn::Add(load(from), hn::Zero(FloatTag())), session.dq + at(r)); });
  }
  add_to_keys(shape, keys, token, rows, all, queries, errors, space);
}

void backward_session(const AttentionShape& shape, const Keys& keys, const HeadKeys& all, const Session& session,
                      float* workspace) noexcept {
  const AttentionWorkspace space(shape, workspace);
  const std::size_t n = shape.head_dim, group = shape.heads / shape.kv_heads, width = round_up(n, kPanelWidth);
  for (std::size_t j = keys.first(); j < keys.end(); ++j) {
    pack_row(all.key(j), n, width, space.key_rows + j * width);
    pack_row({all.value(j), 1}, n, width, space.value_rows + j * width);
  }
  const auto panels_of = [&](const float* rows, float* panels) {
    pack_key_panels(
        keys.first(), keys.end(), n,
        [&](std::size_t j) {
          return Strided{rows + j * width, 1};
        },
        panels);
  };
  panels_of(space.key_rows, space.key_panels);
  panels_of(space.value_rows, space.value_panels);
  const std::size_t from = keys.first() * width, size = (keys.end() - keys.first()) * width;
  std::fill_n(space.dk + from, size, 0.0f);
  std::fill_n(space.dv + from, size, 0.0f);
  const bool tame_keys = all_finite(space.key_rows + from, size);
  const MaskRows masks(shape, session.mask, space.mask);
  const detail::EvenParts tiles(shape.tokens, kTileRows);
  for (std::size_t head = all.kv * group; head < (all.kv + 1) * group; ++head)
    for (std::size_t i = 0; i < tiles.parts; ++i)
      backward_tile(shape, keys, session, masks, head, tiles.begin(i), tiles.begin(i + 1) - tiles.begin(i), tame_keys,
                    space);
  for (std::size_t j = keys.first(); j < keys.end(); ++j)
    give_key(shape, keys, session, all.kv, j, space.dk + j * width, space.dv + j * width);
}

#endif

void attention_backward(const AttentionShape& shape, const AttentionOperands& operands, const ConstMatrixView& y,
                        const ConstMatrixView& statistics, const AttentionGradients& gradients,
                        float* workspace) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < y.rows; ++b) {
    const float* const state = shape.context ? operands.state.row(b) : nullptr;
    const Keys keys(shape, state);
    Session session{operands.q.row(b),
                    y.row(b),
                    statistics.row(b),
                    statistics.row(b) + shape.heads * shape.tokens,
                    gradients.dy.row(b),
                    gradients.dq.row(b),
                    gradients.dk.row(b),
                    gradients.dv.row(b),
                    shape.context && gradients.dstate.data ? gradients.dstate.row(b) : nullptr,
                    shape.has_mask() ? operands.mask.row(b) : nullptr,
                    shape.has_mask() && gradients.dmask.data ? gradients.dmask.row(b) : nullptr};
    if (session.dmask) clear_mask(shape, session.dmask);
    const float* const dnext = shape.context && gradients.dnext_state.data ? gradients.dnext_state.row(b) : nullptr;
    if (session.dstate) detail::pass_state(shape, keys, dnext, session.dstate);
    for (std::size_t kv = 0; kv < shape.kv_heads; ++kv)
      backward_session(shape, keys, HeadKeys(shape, keys, operands.k.row(b), operands.v.row(b), state, kv), session,
                       workspace);
    if (dnext) detail::add_appended(shape, keys, dnext, session.dk, session.dv);
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kAttentionBackward = WEFT_DISPATCH(attention_backward);
}  // namespace

void attention_backward(const AttentionShape& shape, const AttentionOperands& operands, const ConstMatrixView& y,
                        const ConstMatrixView& statistics, const AttentionGradients& gradients,
                        float* workspace) noexcept {
  kAttentionBackward.get()(shape, operands, y, statistics, gradients, workspace);
}

}  // namespace weft::kernels
#endif
