// SPDX-License-Identifier: Apache-2.0
// y = softmax(scale q k^T) v: a group has one row, and 16 threads times as many parts as chunks of 64 keys are worked
// on at once. Thread t of a part computes the scores of keys 4 t to 4 t + 3 of its chunk, then the sums of as many
// elements of a head over the chunk's keys; the parts' sums are added in the order of the chunks. Where a call has one
// token and its state stays where it is, the row also turns q and k (ROTATES), and the first head of its group leaves k
// and v in the state (APPENDS).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x = 64, local_size_x_id = 3) in;  // always set, by what the device has; 64 at least
#include "attention.glsl"

layout(constant_id = 1) const uint FEATURES = 1;  // of a part's 64: head_dim / 64, rounded up
layout(constant_id = 2) const uint ROTATES = 0;   // 1: pairs by halves; 2: pairs side by side
layout(constant_id = 4) const bool APPENDS = false;
layout(constant_id = 5) const uint ROUNDS = 1;  // whose scores the group keeps; 0: they are kept in memory
layout(constant_id = 6) const bool MASKED = false;
layout(constant_id = 7) const bool ALIGNED = false;  // rows of the state stand at multiples of 16 bytes
#include "attention_operands.inc"
#define WEFT_OPERANDS WEFT_CALL_OPERANDS
#include "operands.glsl"
const uint kParts = gl_WorkGroupSize.x / 16, kQuads = 16, kRotated = ROTATES != 0 ? FEATURES * kQuads : 1;
const uint kBatch = 16;  // loads of a thread that are under way together; slots of so many keys stand side by side
shared vec4 query[FEATURES * kQuads], fresh_key[kRotated];
shared vec4 scores[ROUNDS == 0 ? 1 : ROUNDS * kParts * kQuads];
shared vec4 steps[kParts * kQuads], sums[kParts * kQuads];
shared float lanes[64];
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

vec4 whole_quad(Floats from, uint i) { return vec4(from.at[i], from.at[i + 1], from.at[i + 2], from.at[i + 3]); }
vec4 quad_at(Floats from, uint i) {
  if (ALIGNED) return Quads(uint64_t(from) + i * 4ul).at[0];
  return whole_quad(from, i);
}

// Rule R1 over the elements of a head, of four keys of the state: `from` holds those of the first, 16 apart.
vec4 dots_in_state(Floats from, uint n) {
  vec4 total = vec4(0.0);
  for (uint first = 0; first < n; first += 64) {
    vec4 sum = vec4(0.0);
    uint end = min(n, first + 64), i = first;
    for (; i + kBatch <= end; i += kBatch) {
      vec4 k[kBatch];
      WEFT_UNROLL for (uint b = 0; b < kBatch; ++b) k[b] = quad_at(from, (i + b) * 16);
      subgroupMemoryBarrierBuffer();  // all are under way before one is waited for (linear_row.comp)
      WEFT_UNROLL for (uint b = 0; b < kBatch; ++b) sum = fused(operand(k[b]), query[(i + b) / 4][b % 4], sum);
    }
    for (; i < end; ++i) sum = fused(operand(quad_at(from, i * 16)), query[i / 4][i % 4], sum);
    total = add(total, sum);
  }
  return total;
}
// Of a key that is not in the state yet, as it stands in memory or was turned.
float dot_of_fresh(Floats from, uint n) {
  float total = 0.0;
  for (uint first = 0; first < n; first += 64) {
    float sum = 0.0;
    uint end = min(n, first + 64), i = first;
    for (; i + kBatch <= end; i += kBatch) {
      vec4 q[kBatch / 4], k[kBatch / 4];
      WEFT_UNROLL for (uint b = 0; b < kBatch / 4; ++b) {
        q[b] = query[i / 4 + b];
        k[b] = ROTATES != 0 ? fresh_key[i / 4 + b] : whole_quad(from, i + 4 * b);
      }
      WEFT_UNROLL for (uint b = 0; b < kBatch; ++b) sum = fused(operand(k[b / 4][b % 4]), q[b / 4][b % 4], sum);
    }
    for (; i < end; ++i)
      sum = fused(operand(ROTATES != 0 ? fresh_key[i / 4][i % 4] : from.at[i]), query[i / 4][i % 4], sum);
    total = add(total, sum);
  }
  return total;
}

// Scores of keys j to j + 3, which stand side by side in the state. Those that are not seen have any.
vec4 scores_of(Call c, Keys keys, uint session, uint kv, uint head, uint t, uint j, uvec2 seen) {
  vec4 numbers = vec4(0.0);
  if (j < keys.fresh)
    numbers = dots_in_state(at_float(c.state, session, c.state_stride, ring_key(c, kv, slot_of(c, keys, j))),
                            c.head_dim);
  for (uint i = max(j, keys.fresh); i < min(j + 4, seen.y); ++i)
    numbers[i - j] = dot_of_fresh(head_at(c.k, session, c.k_stride, i - keys.fresh, c.kv_heads, kv, c.head_dim),
                                  c.head_dim);
  WEFT_UNROLL for (uint i = 0; i < 4; ++i) {
    numbers[i] = mul(numbers[i], flushed(c.scale));
    if (c.score_cap != 0.0) numbers[i] = mul(c.score_cap, exact_tanh(mul(numbers[i], flushed(c.inverse_cap))));
    if (MASKED && j + i >= seen.x && j + i < seen.y) numbers[i] = masked(c, session, head, t, j + i, numbers[i]);
  }
  return numbers;
}

// The sums of elements i to i + 3 over the keys of a chunk that are seen, by this part's steps.
vec4 chunk_sum(Call c, Keys keys, uint session, uint kv, uint chunk, uvec2 seen, uint i, uint part) {
  uint low = max(seen.x, chunk * 64), high = min(seen.y, chunk * 64 + 64), old = min(high, keys.fresh);
  uint width = value_width(c);
  vec4 sum = vec4(0.0);
  for (uint first = low / kBatch * kBatch; first < old; first += kBatch) {
    Floats from = at_float(c.state, session, c.state_stride, ring_value(c, kv, slot_of(c, keys, first)) + i);
    vec4 v[kBatch], own[kBatch / 4];
    WEFT_UNROLL for (uint b = 0; b < kBatch; ++b) v[b] = quad_at(from, b * width);
    WEFT_UNROLL for (uint b = 0; b < kBatch / 4; ++b) own[b] = steps[part * kQuads + first % 64 / 4 + b];
    subgroupMemoryBarrierBuffer();
    WEFT_UNROLL for (uint b = 0; b < kBatch; ++b)
      if (first + b >= low && first + b < old) sum = fused(operand(v[b]), own[b / 4][b % 4], sum);
  }
  for (uint key = max(low, keys.fresh); key < high; ++key) {
    Floats from = head_at(c.v, session, c.v_stride, key - keys.fresh, c.kv_heads, kv, c.head_dim);
    vec4 v;
    WEFT_UNROLL for (uint e = 0; e < 4; ++e) v[e] = from.at[min(i + e, c.head_dim - 1)];
    sum = fused(operand(v), steps[part * kQuads + key % 64 / 4][key % 4], sum);
  }
  return sum;
}

// The largest of all threads' values, for all of them; a NaN never wins.
float largest_of_all(float value) {
  uint id = gl_LocalInvocationID.x;
  barrier();
  steps[id / 4][id % 4] = value;
  barrier();
  if (id < 64) {
    WEFT_UNROLL for (uint first = 64; first < gl_WorkGroupSize.x; first += 64) {
      uint other = first + id;
      if (other < gl_WorkGroupSize.x && steps[other / 4][other % 4] > value) value = steps[other / 4][other % 4];
    }
    lanes[id] = value;
  }
  for (uint reach = 32; reach > 0; reach /= 2) {
    barrier();
    if (id < reach && lanes[id + reach] > lanes[id]) lanes[id] = lanes[id + reach];
  }
  barrier();
  return lanes[0];
}

// The parts' sums on top of `total`, in the order of their chunks; reads of eight are under way together.
vec4 with_parts(vec4 total, uint parts, uint quad) {
  for (uint first = 0; first < parts; first += 8) {
    vec4 own[8];
    WEFT_UNROLL for (uint p = 0; p < 8; ++p) own[p] = sums[min(first + p, parts - 1) * kQuads + quad];
    WEFT_UNROLL for (uint p = 0; p < 8; ++p)
      if (first + p < parts) total = add(total, own[p]);
  }
  return total;
}
// The same of a lane's steps, whose first key is `key`.
float with_steps(float sum, uint parts, uint key, uint lane, uvec2 seen) {
  for (uint first = 0; first < parts; first += 8) {
    float own[8];
    WEFT_UNROLL for (uint p = 0; p < 8; ++p) own[p] = steps[min(first + p, parts - 1) * kQuads + lane / 4][lane % 4];
    WEFT_UNROLL for (uint p = 0; p < 8; ++p) {
      uint at = key + (first + p) * 64;
      if (first + p < parts && at >= seen.x && at < seen.y) sum = add(sum, own[p]);
    }
  }
  return sum;
}

void attend(Call c, uint job, uint at, uint64_t kept) {
  uint id = gl_LocalInvocationID.x, quad = id % kQuads, part = id / kQuads;
  uint group = group_of(c), n = c.head_dim, t = at / group;
  uint session = (c.first_job + job) / c.kv_heads, kv = (c.first_job + job) % c.kv_heads;
  uint head = kv * group + at % group;
  Keys keys = keys_of(c, session);
  uvec2 seen = visible(c, keys, t);
  uint begin = seen.x / 64, end = (seen.y + 63) / 64;
  Floats q = head_at(c.q, session, c.q_stride, t, c.heads, head, n);
  barrier();
  for (uint i = id; i < n; i += gl_WorkGroupSize.x) query[i / 4][i % 4] = operand(turned(c, session, q, i));
  if (ROTATES != 0) {
    Floats k = head_at(c.k, session, c.k_stride, 0, c.kv_heads, kv, n);
    for (uint i = id; i < n; i += gl_WorkGroupSize.x) fresh_key[i / 4][i % 4] = turned(c, session, k, i);
  }
  barrier();

  float largest = -INFINITY;
  for (uint round = 0; begin + round * kParts < end; ++round) {
    uint j = (begin + round * kParts + part) * 64 + 4 * quad;
    vec4 numbers = vec4(0.0);
    if (j + 4 > seen.x && j < seen.y) {
      numbers = scores_of(c, keys, session, kv, head, t, j, seen);
      WEFT_UNROLL for (uint i = 0; i < 4; ++i)
        if (j + i >= seen.x && j + i < seen.y && numbers[i] > largest) largest = numbers[i];
    }
    uint place = round * gl_WorkGroupSize.x + id;
    if (ROUNDS != 0)
      scores[place] = numbers;
    else
      Quads(kept).at[place] = numbers;
  }
  largest = add(largest_of_all(largest), 0.0);
  if (MASKED && largest == -INFINITY) largest = 0.0;

  // The last threads, which most often have nothing else to do, sum the steps of a lane each.
  uint lane = id + 64 - gl_WorkGroupSize.x;
  vec4 total[FEATURES];
  float sum_of_lane = 0.0;
  for (uint f = 0; f < FEATURES; ++f) total[f] = vec4(0.0);
  for (uint round = 0; begin + round * kParts < end; ++round) {
    uint first = begin + round * kParts, chunk = first + part, j = chunk * 64 + 4 * quad;
    uint parts = min(kParts, end - first);
    vec4 own = vec4(0.0);
    if (j + 4 > seen.x && j < seen.y) {
      uint place = round * gl_WorkGroupSize.x + id;
      vec4 numbers = ROUNDS != 0 ? scores[place] : Quads(kept).at[place];
      WEFT_UNROLL for (uint i = 0; i < 4; ++i)
        if (j + i >= seen.x && j + i < seen.y)
          own[i] = MASKED ? exp_of_seen(numbers[i], largest) : exact_exp(sub(numbers[i], largest));
    }
    barrier();
    steps[id] = own;
    barrier();
    for (uint f = 0; f < FEATURES; ++f) {
      uint i = f * 64 + 4 * quad;
      if (i < n && chunk < end) sums[id] = chunk_sum(c, keys, session, kv, chunk, seen, i, part);
      barrier();
      if (part == 0 && i < n) total[f] = with_parts(total[f], parts, quad);
      barrier();
    }
    if (lane < 64) sum_of_lane = with_steps(sum_of_lane, parts, first * 64 + lane, lane, seen);
  }
  barrier();
  if (lane < 64) lanes[lane] = sum_of_lane;
  for (uint reach = 32; reach > 0; reach /= 2) {
    barrier();
    if (id < reach) lanes[id] = add(lanes[id], lanes[id + reach]);
  }
  barrier();
  float sum = lanes[0];
  if (MASKED && sum == 0.0) sum = 1.0;
  if (id == 0) {
    Floats statistics = row_at(c.statistics, session, c.statistics_stride);
    statistics.at[head * c.tokens + t] = largest;
    statistics.at[c.heads * c.tokens + head * c.tokens + t] = sum;
  }
  Floats y = head_at(c.y, session, c.y_stride, t, c.heads, head, n);
  for (uint f = 0; f < FEATURES && part == 0; ++f)
    for (uint e = 0; e < 4; ++e) {
      uint i = f * 64 + 4 * quad + e;
      if (i < n) y.at[i] = divide(add(total[f][e], 0.0), sum);
    }
  if (!APPENDS || at % group != 0) return;
  uint slot = ring_slot(keys.position, c.slots), width = value_width(c);
  Floats v = head_at(c.v, session, c.v_stride, 0, c.kv_heads, kv, n);
  Floats k = head_at(c.k, session, c.k_stride, 0, c.kv_heads, kv, n);
  for (uint i = id; i < width; i += gl_WorkGroupSize.x) {
    Words key = Words(c.next_state + (uint64_t(session) * c.next_stride + ring_key(c, kv, slot) + i * 16ul) * 4ul);
    Words value = Words(c.next_state + (uint64_t(session) * c.next_stride + ring_value(c, kv, slot) + i) * 4ul);
    if (i < n) key.at[0] = ROTATES != 0 ? bits(fresh_key[i / 4][i % 4]) : bits(k.at[i]);
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
