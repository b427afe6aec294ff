// SPDX-License-Identifier: Apache-2.0
// y = softmax(scale q k^T) v, or backwards: probabilities, slopes of the scores, and dq. A group has kRows rows; lane j of
// a row computes the score of key j of a chunk of 64 positions, then the sum of element j of a head over the chunk's
// keys. Scores are computed twice instead of kept, however many keys there are.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lanes.glsl"
#include "attention.glsl"

layout(constant_id = 1) const bool BACKWARD = false;
layout(constant_id = 2) const uint FEATURES = 1;  // of a thread: up to 64 FEATURES elements of a head in a pass
layout(constant_id = 3) const bool MASKED = false;
#include "attention_operands.inc"
#define WEFT_OPERANDS WEFT_CALL_OPERANDS
#include "operands.glsl"
shared float steps[kMostRows][64];

struct Row {
  Floats q, y, dy, dq;
  uint64_t shares, slopes, gaps;  // floats of this row's key 0
  uint head, t;
  float largest, sum, mean;
};

// tanh of a scaled score in parts of the cap.
float share_of_cap(Call c, float scaled) { return exact_tanh(mul(scaled, flushed(c.inverse_cap))); }

float scaled_score(Call c, Keys keys, Row row, uint session, uint kv, uint j) {
  return mul(score(row.q, key_at(c, keys, session, kv, j), c.head_dim), flushed(c.scale));
}
float score_of(Call c, Keys keys, Row row, uint session, uint kv, uint j) {
  float scaled = scaled_score(c, keys, row, session, kv, j);
  if (c.score_cap != 0.0) scaled = mul(c.score_cap, share_of_cap(c, scaled));
  return MASKED ? masked(c, session, row.head, row.t, j, scaled) : scaled;
}

// Weight of key j in the row's sums. The first pass also keeps the parts that others need.
float weigh(Call c, Keys keys, inout Row row, uint session, uint kv, uint j, bool keeps) {
  float scaled = scaled_score(c, keys, row, session, kv, j), u = 0.0;
  if (c.score_cap != 0.0) {
    u = share_of_cap(c, scaled);
    scaled = mul(c.score_cap, u);
  }
  if (MASKED) scaled = masked(c, session, row.head, row.t, j, scaled);
  float e = MASKED ? exp_of_seen(scaled, row.largest) : exact_exp(sub(scaled, row.largest));
  if (!BACKWARD) {
    if (keeps) row.sum = add(row.sum, e);
    return e;
  }
  float share = mul(e, row.sum);
  float up = score(row.dy, value_at(c, keys, session, kv, j), c.head_dim);
  float gap = mul(share, sub(up, row.mean)), slope = mul(gap, flushed(c.scale));
  if (c.score_cap != 0.0) slope = mul(slope, fused(negated(u), u, 1.0));
  if (keeps) {
    Floats(row.shares + j * 4ul).at[0] = share;
    Floats(row.slopes + j * 4ul).at[0] = slope;
    if (MASKED && c.gaps != 0ul) Floats(row.gaps + j * 4ul).at[0] = gap;
  }
  return slope;
}

void attend(Call c, uint job, uint first) {
  uint group = group_of(c), rows = c.tokens * group, n = c.head_dim, l = lane(), r = gl_LocalInvocationID.y;
  uint session = (c.first_job + job) / c.kv_heads, kv = (c.first_job + job) % c.kv_heads;
  uint at = min(first + r, rows - 1), t = at / group, head = kv * group + at % group;
  bool stores = first + r < rows;
  Keys keys = keys_of(c, session);
  uvec2 seen = visible(c, keys, t);
  // Keys that any row of the group sees: barriers stand in loops over it.
  uint begin = visible(c, keys, first / group).x / 64;
  uint end = visible(c, keys, (min(first + kRows, rows) - 1) / group).y;

  Row row;
  row.q = head_at(c.q, session, c.q_stride, t, c.heads, head, n);
  row.y = head_at(c.y, session, c.y_stride, t, c.heads, head, n);
  row.sum = row.mean = 0.0;
  row.head = head, row.t = t;
  Floats statistics = row_at(c.statistics, session, c.statistics_stride);
  uint statistic = head * c.tokens + t, sums = c.heads * c.tokens;
  if (BACKWARD) {
    row.dy = head_at(c.dy, session, c.dy_stride, t, c.heads, head, n);
    row.dq = head_at(c.dq, session, c.dq_stride, t, c.heads, head, n);
    uint64_t place = (uint64_t(job) * rows + at) * c.most_keys * 4ul;
    row.shares = c.shares + place;
    row.slopes = c.slopes + place;
    row.gaps = c.gaps + place;
    row.largest = flushed(statistics.at[statistic]);
    row.sum = divide(1.0, flushed(statistics.at[sums + statistic]));
    float mean = 0.0;
    for (uint i = l; i < n; i += 64) mean = fused(operand(row.dy.at[i]), operand(row.y.at[i]), mean);
    row.mean = fold_lanes(mean);
  } else {
    float largest = -INFINITY;
    for (uint chunk = seen.x / 64; chunk * 64 < seen.y; ++chunk) {
      uint j = chunk * 64 + l;
      if (j >= seen.x && j < seen.y) largest = larger(largest, score_of(c, keys, row, session, kv, j));
    }
    row.largest = add(fold_largest(largest), 0.0);
    if (MASKED && row.largest == -INFINITY) row.largest = 0.0;
  }

  for (uint from = 0; from < n; from += 64 * FEATURES) {
    float total[FEATURES];
    for (uint f = 0; f < FEATURES; ++f) total[f] = 0.0;
    for (uint chunk = begin; chunk * 64 < end; ++chunk) {
      uint j = chunk * 64 + l, low = max(seen.x, chunk * 64), high = min(seen.y, chunk * 64 + 64);
      float step_ = 0.0;
      if (j >= seen.x && j < seen.y) step_ = weigh(c, keys, row, session, kv, j, from == 0 && stores);
      barrier();
      steps[r][l] = step_;
      barrier();
      for (uint f = 0; f < FEATURES; ++f) {
        uint i = from + f * 64 + l;
        if (i >= n || low >= high) continue;
        float sum = 0.0;
        for (uint key = low; key < high; ++key) {
          Strided numbers = BACKWARD ? key_at(c, keys, session, kv, key) : value_at(c, keys, session, kv, key);
          sum = fused(steps[r][key - chunk * 64], element(numbers, i), sum);
        }
        total[f] = add(total[f], sum);
      }
    }
    if (!BACKWARD && from == 0) {
      row.sum = fold_lanes(row.sum);
      if (MASKED && row.sum == 0.0) row.sum = 1.0;
      if (stores && l == 0) {
        statistics.at[statistic] = row.largest;
        statistics.at[sums + statistic] = row.sum;
      }
    }
    for (uint f = 0; f < FEATURES; ++f) {
      uint i = from + f * 64 + l;
      if (i >= n || !stores) continue;
      float whole = add(total[f], 0.0);
      if (BACKWARD)
        row.dq.at[i] = whole;
      else
        row.y.at[i] = divide(whole, row.sum);
    }
  }
}

void main() {
  load_operands();
  Call c = Call(call);
  uint rows = c.tokens * group_of(c);
  for (uint job = gl_WorkGroupID.y; job < c.jobs; job += gl_NumWorkGroups.y)
    for (uint first = gl_WorkGroupID.x * kRows; first < rows; first += gl_NumWorkGroups.x * kRows)
      attend(c, job, first);
}
