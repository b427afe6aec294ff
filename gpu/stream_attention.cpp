// SPDX-License-Identifier: Apache-2.0
// Attention and the turns of its queries and keys.

#include "gpu/internal/limits.hpp"
#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/attention_operands.inc"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace weft::gpu {
namespace {

constexpr std::size_t kLanes = 64, kRing = 16, kHeader = 16, kStateThreads = 256;
/// Parts of attention_state.comp where a state lies over the one before it.
constexpr std::uint32_t kAppended = 1, kPosition = 2;
/// Bytes of probabilities and slopes that backward keeps at once.
constexpr std::size_t kMostKept = std::size_t{64} << 20;

using uint = std::uint32_t;
struct Call {
#include "gpu/shaders/attention_call.inc"
};
struct CallPush {
  WEFT_CALL_OPERANDS(WEFT_MEMBER)
};
struct AnglesPush {
  WEFT_ANGLES_OPERANDS(WEFT_MEMBER)
};
struct RopePush {
  WEFT_ROPE_OPERANDS(WEFT_MEMBER)
};

std::size_t round_up(std::size_t n, std::size_t to) { return groups_of(n, to) * to; }

Call call_of(const AttentionShape& shape, const AttentionOperands& operands, const ConstMatrixView& y,
             const ConstMatrixView& statistics) {
  constexpr std::size_t kUnbounded = std::size_t{1} << 30;  // sums of two fit 32 bits
  const std::size_t reach =
      std::min(shape.context ? shape.context : kUnbounded, shape.window ? shape.window : kUnbounded);
  Call call{};
  call.q = address(operands.q.data), call.q_stride = word(operands.q.stride);
  call.k = address(operands.k.data), call.k_stride = word(operands.k.stride);
  call.v = address(operands.v.data), call.v_stride = word(operands.v.stride);
  if (shape.context) call.state = address(operands.state.data), call.state_stride = word(operands.state.stride);
  call.y = address(y.data), call.y_stride = word(y.stride);
  call.statistics = address(statistics.data), call.statistics_stride = word(statistics.stride);
  call.tokens = word(shape.tokens), call.heads = word(shape.heads), call.kv_heads = word(shape.kv_heads);
  call.head_dim = word(shape.head_dim), call.slots = word(round_up(shape.context, kRing)), call.reach = word(reach);
  call.causal = shape.causal, call.scale = shape.scale, call.score_cap = shape.score_cap;
  call.inverse_cap = shape.score_cap != 0 ? 1 / shape.score_cap : 0;
  if (shape.has_mask()) call.mask = address(operands.mask.data), call.mask_stride = word(operands.mask.stride);
  call.mask_head = word(shape.mask.head), call.mask_token = word(shape.mask.token),
  call.mask_key = word(shape.mask.key);
  call.jobs = word(y.rows * shape.kv_heads);
  call.most_keys = word(round_up((shape.context ? reach - 1 : 0) + shape.tokens + kLanes - 1, kLanes));
  return call;
}

CallPush placed(Recorder& recorder, const Call& call) { return {recorder.parameters(&call, sizeof call)}; }

/// Elements of a head that a thread of attention.comp sums at once.
std::uint32_t features(const AttentionShape& shape) {
  return word(std::clamp<std::size_t>(groups_of(shape.head_dim, kLanes), 1, 4));
}
std::size_t rows_of_job(const AttentionShape& shape) { return shape.tokens * (shape.heads / shape.kv_heads); }

/// Groups of attention_row.comp. `rounds`: of the parts' chunks, whose scores a group keeps in shared memory; 0: they
/// are in memory. `groups`: of a job at most. threads 0: heads are too wide for it.
constexpr std::size_t kManyQueries = 512;  // that fill a device by themselves
struct RowForm {
  std::size_t threads = 0, rounds = 0, groups = std::numeric_limits<std::size_t>::max();
};
RowForm row_form(const DeviceInfo& info, const AttentionShape& shape, std::size_t rows, Call& call) {
  constexpr std::size_t kWidestHead = 512, kMostThreads = 512;
  if (shape.head_dim > kWidestHead) return {};
  const bool is_wide = info.group_threads == kWideThreads;
  const std::size_t most = !is_wide               ? info.group_threads
                           : rows >= kManyQueries ? kWideThreads
                                                  : std::min<std::size_t>(info.max_group_threads, kMostThreads);
  constexpr std::size_t kEach = 4;  // keys of a thread
  const std::size_t chunks = call.most_keys / kLanes,
                    parts = std::clamp<std::size_t>(chunks, kEach, most * kEach / kLanes);
  RowForm form{parts * kLanes / kEach, groups_of(chunks, parts)};
  call.most_keys = word(form.rounds * parts * kLanes);
  const std::size_t floats = (form.rounds + 2) * parts * kLanes + 2 * round_up(shape.head_dim, kLanes) + kLanes;
  if (floats * sizeof(float) <= (is_wide ? kWideSharedBytes : kLeastSharedBytes)) return form;
  form.rounds = 0;
  form.groups = std::max<std::size_t>(kMostKept / (sizeof(float) * call.most_keys * call.jobs), 1);
  return form;
}
/// True where attention_tile.comp is better than attention_row.comp: rows of a kv head share what they read.
constexpr std::size_t kTileQueries = 32, kTileHead = 256;
bool is_tiled(const DeviceInfo& info, const AttentionShape& shape, std::size_t jobs) {
  return info.group_threads == kWideThreads && shape.tokens > 1 && shape.head_dim <= kTileHead &&
         rows_of_job(shape) >= kTileQueries && rows_of_job(shape) * jobs >= kManyQueries;
}
bool is_aligned_matrix(const ConstMatrixView& m) { return address(m.data) % 16 == 0 && m.stride % 4 == 0; }
bool has_aligned_state(const AttentionShape& shape, const AttentionOperands& from) {
  return shape.context && is_aligned_matrix(from.state);
}
bool has_aligned_heads(const AttentionShape& shape, const AttentionOperands& from) {
  return shape.head_dim % 4 == 0 && is_aligned_matrix(from.q) && is_aligned_matrix(from.k) &&
         is_aligned_matrix(from.v) && (!shape.context || is_aligned_matrix(from.state));
}
Range mask_range(const AttentionShape& shape, const ConstMatrixView& mask) {
  return shape.has_mask() ? range(mask) : Range();
}
Groups state_groups(const AttentionShape& shape, const Call& call) {
  const std::size_t ring = (kernels::attention_state_size(shape) - kHeader) / shape.kv_heads;
  return {groups_of(std::max<std::size_t>(ring, 1), kStateThreads), call.jobs};
}

}  // namespace

void Stream::lower(const ops::Attention& op) {
  if (op.y.rows == 0) return turn_ropes();
  static const Shader &whole = shader("attention"), &by_row = shader("attention_row"),
                      &by_tile = shader("attention_tile"), &append = shader("attention_state");
  Call call = call_of(op.shape, op.from, op.y, op.statistics);
  const bool has_state = op.shape.context != 0, in_place = has_state && op.next_state.data == op.from.state.data;
  const bool appends = in_place && op.shape.tokens == 1 && op.shape.causal;
  std::uint32_t rotates = 0;
  Range angles;
  if (appends && are_ropes_of(op)) {
    const kernels::Rope& rope = ropes_[0].op.rope;
    rotates = rope.pairs == kernels::RopePairs::interleaved ? 2 : 1;
    angles = ropes_[0].angles, call.angles = angles.begin, call.pairs = word(rope.dims() / 2);
  } else {
    turn_ropes();
  }
  const Range state = has_state ? range(op.from.state) : Range(), mask = mask_range(op.shape, op.from.mask);
  if (has_state) call.next_state = address(op.next_state.data), call.next_stride = word(op.next_state.stride);
  const bool has_tiles = is_tiled(recorder_->context().info, op.shape, call.jobs);
  const RowForm form = row_form(recorder_->context().info, op.shape, rows_of_job(op.shape) * call.jobs, call);
  if (has_tiles) {
    recorder_->dispatch(
        by_tile,
        {word(groups_of(op.shape.head_dim, kLanes)), has_aligned_heads(op.shape, op.from), op.shape.has_mask()},
        placed(*recorder_, call), {groups_of(rows_of_job(op.shape), kTileQueries), call.jobs},
        {range(op.from.q), range(op.from.k), range(op.from.v), state, mask}, {range(op.y), range(op.statistics)});
  } else if (form.threads == 0) {
    recorder_->dispatch(whole, {false, features(op.shape), op.shape.has_mask()}, placed(*recorder_, call),
                        {groups_of(rows_of_job(op.shape), kLaneGroupRows), call.jobs},
                        {range(op.from.q), range(op.from.k), range(op.from.v), state, mask},
                        {range(op.y), range(op.statistics)});
  } else {
    const std::size_t across = std::min(rows_of_job(op.shape), form.groups);
    Range kept;
    if (form.rounds == 0) {
      const std::size_t bytes = across * call.jobs * call.most_keys * sizeof(float);
      call.shares = scratch(bytes), kept = {call.shares, call.shares + bytes};
    }
    const Range written = appends ? range(op.next_state) : Range();
    recorder_->dispatch(by_row,
                        {word(groups_of(op.shape.head_dim, kLanes)), rotates, word(form.threads), appends,
                         word(form.rounds), op.shape.has_mask(), has_aligned_state(op.shape, op.from)},
                        placed(*recorder_, call), {across, call.jobs},
                        {range(op.from.q), range(op.from.k), range(op.from.v), state, angles, mask},
                        {range(op.y), range(op.statistics), kept, written});
  }
  turn_ropes();
  if (!has_state) return;
  if (!in_place) {
    recorder_->dispatch(append, {false, 0u}, placed(*recorder_, call), state_groups(op.shape, call),
                        {range(op.from.k), range(op.from.v), state}, {range(op.next_state)});
    return;
  }
  if (!appends || form.threads == 0) {
    const std::size_t added = std::min<std::size_t>(op.shape.tokens, call.slots) * round_up(op.shape.head_dim, kRing);
    recorder_->dispatch(append, {false, kAppended}, placed(*recorder_, call),
                        {groups_of(std::max<std::size_t>(added, 1), kStateThreads), call.jobs},
                        {range(op.from.k), range(op.from.v), state}, {range(op.next_state)});
  }
  recorder_->dispatch(append, {false, kPosition}, placed(*recorder_, call), {groups_of(op.y.rows, kStateThreads), 1},
                      {state}, {range(op.next_state)});
}

void Stream::lower(const ops::AttentionBackward& op) {
  if (op.y.rows == 0) return;
  static const Shader &slopes = shader("attention"), &keys = shader("attention_keys"),
                      &pass = shader("attention_state"), &masks = shader("attention_mask");
  Call call = call_of(op.shape, op.from, op.y, op.statistics);
  call.dy = address(op.gradients.dy.data), call.dy_stride = word(op.gradients.dy.stride);
  call.dq = address(op.gradients.dq.data), call.dq_stride = word(op.gradients.dq.stride);
  call.dk = address(op.gradients.dk.data), call.dk_stride = word(op.gradients.dk.stride);
  call.dv = address(op.gradients.dv.data), call.dv_stride = word(op.gradients.dv.stride);
  Range state, dnext, dstate;
  if (op.shape.context) {
    state = range(op.from.state), dnext = range(op.gradients.dnext_state), dstate = range(op.gradients.dstate);
    call.dnext_state = address(op.gradients.dnext_state.data),
    call.dnext_stride = word(op.gradients.dnext_state.stride);
    call.dstate = address(op.gradients.dstate.data), call.dstate_stride = word(op.gradients.dstate.stride);
  }
  if (call.dstate != 0)
    recorder_->dispatch(pass, {true, 0u}, placed(*recorder_, call), state_groups(op.shape, call), {state, dnext},
                        {dstate});

  const bool sums_mask = op.shape.has_mask() && op.gradients.dmask.data;
  const Range mask = mask_range(op.shape, op.from.mask);
  Range dmask;
  if (sums_mask) dmask = range(op.gradients.dmask);
  // Number of kv heads of sessions at once, chosen to bound the memory for them.
  const std::size_t all = call.jobs, bytes = rows_of_job(op.shape) * call.most_keys * sizeof(float),
                    parts = sums_mask ? 3 : 2;
  const std::size_t at_once = std::clamp<std::size_t>(kMostKept / (parts * bytes), 1, all);
  const std::uint64_t kept = scratch(at_once * parts * bytes);
  const Range both{kept, kept + at_once * parts * bytes};
  call.shares = kept, call.slopes = kept + at_once * bytes;
  if (sums_mask) {
    call.gaps = call.slopes + at_once * bytes;
    call.dmask = address(op.gradients.dmask.data), call.dmask_stride = word(op.gradients.dmask.stride);
  }
  for (std::size_t first = 0; first < all; first += at_once) {
    call.first_job = word(first), call.jobs = word(std::min(at_once, all - first));
    recorder_->dispatch(slopes, {true, features(op.shape), op.shape.has_mask()}, placed(*recorder_, call),
                        {groups_of(rows_of_job(op.shape), kLaneGroupRows), call.jobs},
                        {range(op.from.q), range(op.from.k), range(op.from.v), state, range(op.y), range(op.statistics),
                         range(op.gradients.dy), mask},
                        {range(op.gradients.dq), both});
    constexpr std::size_t kKeys = 4;  // of a group
    recorder_->dispatch(keys, {}, placed(*recorder_, call), {groups_of(call.most_keys, kKeys), call.jobs},
                        {range(op.from.q), range(op.gradients.dy), state, dnext, both},
                        {range(op.gradients.dk), range(op.gradients.dv), dstate});
    if (!sums_mask) continue;
    const std::size_t numbers = (op.shape.mask.head ? op.shape.heads : 1) *
                                (op.shape.mask.token ? op.shape.tokens : 1) * op.shape.tokens,
                      sessions = (first + call.jobs - 1) / op.shape.kv_heads - first / op.shape.kv_heads + 1;
    recorder_->dispatch(masks, {}, placed(*recorder_, call), {groups_of(numbers, kStateThreads), sessions}, {both},
                        {dmask});
  }
}

Range Stream::angles_of(const ops::Rope& op) {
  if (!op.state.data && op.rope.table && op.tokens <= op.rope.table_positions) return {};
  static const Shader& angles = shader("rope_angles");
  const auto is_same = [&](const PendingRope& other) {
    return other.op.rope.turns == op.rope.turns && other.op.rope.dims() == op.rope.dims() &&
           other.op.rope.gain == op.rope.gain && other.op.state.data == op.state.data && other.op.x.rows == op.x.rows &&
           other.op.tokens == op.tokens;
  };
  if (const auto known = std::find_if(ropes_.begin(), ropes_.end(), is_same); known != ropes_.end())
    return known->angles;
  const std::size_t pairs = op.rope.dims() / 2, sessions = op.state.data ? op.x.rows : 1,
                    all = sessions * op.tokens * pairs;
  const std::uint64_t made = scratch(all * 2 * sizeof(float));
  const Range to{made, made + all * 2 * sizeof(float)};
  const AnglesPush push{
      address(op.rope.turns), address(op.state.data), made,        std::bit_cast<std::uint64_t>(op.rope.gain),
      word(sessions),         word(op.tokens),        word(pairs), word(op.state.stride)};
  recorder_->dispatch(angles, {}, push, {groups_of(all, 64), 1},
                      {range(op.rope.turns, pairs * sizeof(std::uint64_t)), range(op.state)}, {to});
  return to;
}

void Stream::turn(const PendingRope& pending) {
  static const Shader& turns = shader("rope");
  const ops::Rope& op = pending.op;
  const bool has_table = pending.angles.begin == 0;
  const std::size_t pairs = op.rope.dims() / 2;
  const Range from = has_table ? range(op.rope.table, op.tokens * 2 * op.rope.dims() * sizeof(float)) : pending.angles;
  const RopePush push{address(op.x.data), address(op.y.data),
                      from.begin,         word(op.x.rows),
                      word(op.x.cols),    word(op.x.stride),
                      word(op.y.stride),  word(op.rope.head_dim),
                      word(op.tokens),    op.state.data ? word(op.tokens) : 0,
                      word(pairs)};
  recorder_->dispatch(turns, {op.rope.pairs == kernels::RopePairs::interleaved, op.transposed, has_table}, push,
                      {groups_of(op.x.cols / 2, 128), op.x.rows}, {from, range(op.x)}, {range(op.y)});
}

void Stream::turn_ropes() {
  for (const PendingRope& each : std::exchange(ropes_, {})) turn(each);
}

bool Stream::are_ropes_of(const ops::Attention& op) const {
  if (ropes_.size() != 2) return false;
  const auto is_of = [&](const ops::Rope& rope, const ConstMatrixView& x) {
    return rope.x.data == x.data && rope.x.rows == x.rows && rope.x.cols == x.cols && rope.x.stride == x.stride &&
           rope.state.data == op.from.state.data && rope.rope.head_dim == op.shape.head_dim;
  };
  const ops::Rope &q = ropes_[0].op, &k = ropes_[1].op;
  return is_of(q, op.from.q) && is_of(k, op.from.k) && ropes_[0].angles.begin == ropes_[1].angles.begin &&
         q.rope.pairs == k.rope.pairs;
}

void Stream::lower(const ops::Rope& op) {
  if (op.x.rows == 0 || op.x.cols == 0) return;
  // Of one token, in place, the attention behind it turns what it reads; memory is turned after it.
  const bool may_wait = recorder_->captures() && op.x.data == op.y.data && !op.transposed && op.tokens == 1 &&
                        op.state.data && ropes_.size() < 2;
  if (!may_wait) turn_ropes();
  const PendingRope rope{op, angles_of(op)};
  may_wait ? ropes_.push_back(rope) : turn(rope);
}

}  // namespace weft::gpu
