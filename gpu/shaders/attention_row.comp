// SPDX-License-Identifier: Apache-2.0
// y = softmax(scale q k^T) v: a group has one row, 64 lanes times as many parts as chunks of 64 keys are worked on at
// once. Lane j of a part computes the score of key j of its chunk, then the sum of element j of a head over the chunk's
// keys; the parts' sums are added in the order of the chunks. Where a call has one token and its state stays where it
// is, the row also turns q and k (ROTATES), and the first head of its group leaves k and v in the state (APPENDS).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x = 64, local_size_x_id = 3) in;  // always set, by what the device has
#include "attention.glsl"

layout(constant_id = 1) const uint FEATURES = 1;  // of a lane: head_dim / 64, rounded up
layout(constant_id = 2) const uint ROTATES = 0;   // 1: pairs by halves; 2: pairs side by side
layout(constant_id = 4) const bool APPENDS = false;
layout(constant_id = 5) const uint ROUNDS = 1;  // whose scores the group keeps; 0: they are kept in memory
layout(constant_id = 6) const bool MASKED = false;
#include "attention_operands.inc"
#define WEFT_OPERANDS WEFT_CALL_OPERANDS
#include "operands.glsl"
const uint kParts = gl_WorkGroupSize.x / 64, kRotated = ROTATES != 0 ? FEATURES * 64 : 1;
const uint kBatch = 16;  // loads of a thread that are under way together; slots of so many keys stand side by side
shared float query[FEATURES * 64], fresh_key[kRotated];
shared float scores[ROUNDS == 0 ? 1 : ROUNDS * kParts * 64];
shared float steps[kParts * 64], sums[kParts * 64];
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Angles { vec2 at[]; };

// Element i of a head as rope.comp leaves it.
float turned(Call c, uint session, Floats head, uint i) {
  if (ROTATES == 0 || i >= 2 * c.pairs) return head.at[i];
  uint pair = ROTATES == 2 ? i / 2 : i % c.pairs;
  bool is_second = ROTATES == 2 ? i % 2 == 1 : i >= c.pairs;
  uint other = ROTATES == 2 ? i ^ 1u : is_second ? i - c.pairs : i + c.pairs;
  vec2 angle = Angles(c.angles + (uint64_t(session) * c.pairs + pair) * 8ul).at[0];
  float own = flushed(head.at[i]), across = flushed(head.at[other]);
  return fused(own, angle.x, mul(across, is_second ? angle.y : negated(angle.y)));
}

// Rule R1 over the elements of a head: `from` holds those of a key `step_` apart.
float dot_in_memory(Floats from, uint step_, uint n) {
  float total = 0.0;
  for (uint first = 0; first < n; first += 64) {
    float sum = 0.0;
    uint end = min(n, first + 64), i = first;
    for (; i + kBatch <= end; i += kBatch) {
      float k[kBatch];
      WEFT_UNROLL for (uint b = 0; b < kBatch; ++b) k[b] = from.at[(i + b) * step_];
      subgroupMemoryBarrierBuffer();  // all are under way before one is waited for (linear_row.comp)
      WEFT_UNROLL for (uint b = 0; b < kBatch; ++b) sum = fused(operand(k[b]), query[i + b], sum);
    }
    for (; i < end; ++i) sum = fused(operand(from.at[i * step_]), query[i], sum);
    total = add(total, sum);
  }
  return total;
}
float dot_of_fresh(uint n) {
  float total = 0.0;
  for (uint first = 0; first < n; first += 64) {
    float sum = 0.0;
    for (uint i = first; i < min(n, first + 64); ++i) sum = fused(operand(fresh_key[i]), query[i], sum);
    total = add(total, sum);
  }
  return total;
}

float score_of(Call c, Keys keys, uint session, uint kv, uint j) {
  float dot_;
  if (ROTATES != 0 && j >= keys.fresh) {
    dot_ = dot_of_fresh(c.head_dim);
  } else {
    Strided key = key_at(c, keys, session, kv, j);
    dot_ = dot_in_memory(key.from, key.step_, c.head_dim);
  }
  float scaled = mul(dot_, flushed(c.scale));
  return c.score_cap == 0.0 ? scaled : mul(c.score_cap, exact_tanh(mul(scaled, flushed(c.inverse_cap))));
}

// The sum of element i over the keys of a chunk that are seen, by this part's steps.
float chunk_sum(Call c, Keys keys, uint session, uint kv, uint chunk, uvec2 seen, uint i, uint part_at) {
  uint low = max(seen.x, chunk * 64), high = min(seen.y, chunk * 64 + 64), old = min(high, keys.fresh);
  uint width = value_width(c), own = part_at - chunk * 64;
  float sum = 0.0;
  for (uint first = low / kBatch * kBatch; first < old; first += kBatch) {
    Floats from = at_float(c.state, session, c.state_stride, ring_value(c, kv, slot_of(c, keys, first)) + i);
    float v[kBatch];
    WEFT_UNROLL for (uint b = 0; b < kBatch; ++b) v[b] = from.at[b * width];
    subgroupMemoryBarrierBuffer();
    WEFT_UNROLL for (uint b = 0; b < kBatch; ++b)
      if (first + b >= low && first + b < old) sum = fused(steps[own + first + b], operand(v[b]), sum);
  }
  for (uint first = max(low, keys.fresh); first < high; first += kBatch) {
    uint stride = c.kv_heads * c.head_dim;
    Floats from = head_at(c.v, session, c.v_stride, 0, c.kv_heads, kv, c.head_dim);
    float v[kBatch];
    WEFT_UNROLL for (uint b = 0; b < kBatch; ++b) v[b] = from.at[(min(first + b, high - 1) - keys.fresh) * stride + i];
    subgroupMemoryBarrierBuffer();
    WEFT_UNROLL for (uint b = 0; b < kBatch; ++b)
      if (first + b < high) sum = fused(steps[own + first + b], operand(v[b]), sum);
  }
  return sum;
}

// The largest of all threads' values, for all of them; a NaN never wins.
float largest_of_all(float value) {
  uint id = gl_LocalInvocationID.x;
  barrier();
  steps[id] = value;
  barrier();
  for (uint part = 1; id < 64 && part < kParts; ++part) {
    float other = steps[part * 64 + id];
    if (other > steps[id]) steps[id] = other;
  }
  for (uint reach = 32; reach > 0; reach /= 2) {
    barrier();
    if (id < reach && steps[id + reach] > steps[id]) steps[id] = steps[id + reach];
  }
  barrier();
  return steps[0];
}

void attend(Call c, uint job, uint at, uint64_t kept) {
  uint id = gl_LocalInvocationID.x, l = id % 64, part = id / 64;
  uint group = group_of(c), n = c.head_dim, t = at / group;
  uint session = (c.first_job + job) / c.kv_heads, kv = (c.first_job + job) % c.kv_heads, head = kv * group + at % group;
  Keys keys = keys_of(c, session);
  uvec2 seen = visible(c, keys, t);
  uint begin = seen.x / 64, end = (seen.y + 63) / 64;
  Floats q = head_at(c.q, session, c.q_stride, t, c.heads, head, n);
  barrier();
  for (uint i = id; i < n; i += gl_WorkGroupSize.x) query[i] = operand(turned(c, session, q, i));
  if (ROTATES != 0) {
    Floats k = head_at(c.k, session, c.k_stride, 0, c.kv_heads, kv, n);
    for (uint i = id; i < n; i += gl_WorkGroupSize.x) fresh_key[i] = turned(c, session, k, i);
  }
  barrier();

  float largest = -INFINITY;
  for (uint round = 0; begin + round * kParts < end; ++round) {
    uint j = (begin + round * kParts + part) * 64 + l;
    float score_ = 0.0;
    if (j >= seen.x && j < seen.y) {
      score_ = score_of(c, keys, session, kv, j);
      if (MASKED) score_ = masked(c, session, head, t, j, score_);
      if (score_ > largest) largest = score_;
    }
    if (ROUNDS != 0)
      scores[round * gl_WorkGroupSize.x + id] = score_;
    else
      Floats(kept).at[round * gl_WorkGroupSize.x + id] = score_;
  }
  largest = add(largest_of_all(largest), 0.0);
  if (MASKED && largest == -INFINITY) largest = 0.0;

  float total[FEATURES], sum_of_lane = 0.0;
  for (uint f = 0; f < FEATURES; ++f) total[f] = 0.0;
  for (uint round = 0; begin + round * kParts < end; ++round) {
    uint first = begin + round * kParts, chunk = first + part, j = chunk * 64 + l, parts = min(kParts, end - first);
    float step_ = 0.0;
    if (j >= seen.x && j < seen.y) {
      uint place = round * gl_WorkGroupSize.x + id;
      float score_ = ROUNDS != 0 ? scores[place] : Floats(kept).at[place];
      step_ = MASKED ? exp_of_seen(score_, largest) : exact_exp(sub(score_, largest));
    }
    barrier();
    steps[id] = step_;
    barrier();
    for (uint f = 0; f < FEATURES; ++f) {
      uint i = f * 64 + l;
      if (i < n && chunk < end) sums[id] = chunk_sum(c, keys, session, kv, chunk, seen, i, part * 64);
      barrier();
      if (part == 0 && i < n)
        for (uint p = 0; p < parts; ++p) total[f] = add(total[f], sums[p * 64 + l]);
      barrier();
    }
    // The last part is the one that most often has nothing else to do.
    if (part == kParts - 1)
      for (uint p = 0; p < parts; ++p) {
        uint key = (first + p) * 64 + l;
        if (key >= seen.x && key < seen.y) sum_of_lane = add(sum_of_lane, steps[p * 64 + l]);
      }
  }
  barrier();
  if (part == kParts - 1) steps[l] = sum_of_lane;
  for (uint reach = 32; reach > 0; reach /= 2) {
    barrier();
    if (id < reach) steps[id] = add(steps[id], steps[id + reach]);
  }
  barrier();
  float sum = steps[0];
  if (MASKED && sum == 0.0) sum = 1.0;
  if (id == 0) {
    Floats statistics = row_at(c.statistics, session, c.statistics_stride);
    statistics.at[head * c.tokens + t] = largest;
    statistics.at[c.heads * c.tokens + head * c.tokens + t] = sum;
  }
  Floats y = head_at(c.y, session, c.y_stride, t, c.heads, head, n);
  for (uint f = 0; f < FEATURES; ++f)
    if (part == 0 && f * 64 + l < n) y.at[f * 64 + l] = divide(add(total[f], 0.0), sum);
  if (!APPENDS || at % group != 0) return;
  uint slot = uint(keys.position % c.slots), width = value_width(c);
  Floats v = head_at(c.v, session, c.v_stride, 0, c.kv_heads, kv, n);
  Floats k = head_at(c.k, session, c.k_stride, 0, c.kv_heads, kv, n);
  for (uint i = id; i < width; i += gl_WorkGroupSize.x) {
    Words key = Words(c.next_state + (uint64_t(session) * c.next_stride + ring_key(c, kv, slot) + i * 16ul) * 4ul);
    Words value = Words(c.next_state + (uint64_t(session) * c.next_stride + ring_value(c, kv, slot) + i) * 4ul);
    if (i < n) key.at[0] = ROTATES != 0 ? bits(fresh_key[i]) : bits(k.at[i]);
    value.at[0] = i < n ? bits(v.at[i]) : 0u;
  }
}

void main() {
  load_operands();
  Call c = Call(call);
  uint rows = c.tokens * group_of(c);
  uint64_t kept = c.shares + uint64_t(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * c.most_keys * 4ul;
  for (uint job = gl_WorkGroupID.y; job < c.jobs; job += gl_NumWorkGroups.y)
    for (uint at = gl_WorkGroupID.x; at < rows; at += gl_NumWorkGroups.x) attend(c, job, at, kept);
}
