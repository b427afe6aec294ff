// SPDX-License-Identifier: Apache-2.0
// y = softmax(scale q k^T) v of many rows: a group has 32 rows of a kv head, which share the keys and values that it
// fetches, 64 keys at once. Scores are computed twice: the largest of a row must be known before its sums begin, and the
// rows' scores would not fit into the group's memory. Orders as in attention_row.comp: a thread has the scores of two
// keys, which are two of a row's 64 lanes, for each of four rows; then four elements of two rows.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x = 256) in;
#include "attention.glsl"

layout(constant_id = 1) const uint SLICES = 1;        // of a head: 64 elements each
layout(constant_id = 2) const bool ALIGNED = false;   // heads of q, k, v and the state stand at multiples of 16 bytes
layout(constant_id = 3) const bool MASKED = false;
#include "attention_operands.inc"
#define WEFT_OPERANDS WEFT_CALL_OPERANDS
#include "operands.glsl"
const uint kRows = 32, kOwn = 4, kLanes = 32, kQuads = 16;  // threads of a row's scores; quads of 64 numbers
shared vec4 queries[kRows * kQuads], steps[kRows * kQuads];  // by row
shared vec4 tile[64 * kQuads];  // keys by quad, so that neighbours read neighbours; values by key

// Elements e to e + 3 of n that stand step_ apart; 0 behind the end, which changes no sum.
vec4 quad_of(Floats from, uint step_, uint e, uint n) {
  vec4 quad = vec4(0.0);
  if (ALIGNED && step_ == 1) {
    if (e < n) quad = Quads(uint64_t(from) + e * 4ul).at[0];
    return quad;
  }
  WEFT_UNROLL for (uint i = 0; i < 4; ++i)
    if (e + i < n) quad[i] = from.at[(e + i) * step_];
  return quad;
}

void fetch_queries(Call c, uint session, uint kv, uint first, uint rows, uint slice) {
  uint group = group_of(c), n = c.head_dim;
  WEFT_UNROLL for (uint i = 0; i < 2; ++i) {
    uint id = gl_LocalInvocationID.x + 256 * i, at = min(first + id / kQuads, rows - 1);
    Floats from = head_at(c.q, session, c.q_stride, at / group, c.heads, kv * group + at % group, n);
    queries[id] = operand(quad_of(from, 1, slice * 64 + id % kQuads * 4, n));
  }
}

void fetch_keys(Call c, Keys keys, uint session, uint kv, uint chunk, uint slice) {
  uint id = gl_LocalInvocationID.x;
  // Eight neighbours read at once what stands by key, sixteen what stands in a ring.
  bool is_fresh = ALIGNED && chunk * 64 >= keys.fresh;
  vec4 quads[4];
  uint places[4];
  WEFT_UNROLL for (uint i = 0; i < 4; ++i) {
    uint key = is_fresh ? id / 8 + i / 2 * 32 : id % 64, quad = is_fresh ? id % 8 + i % 2 * 8 : id / 64 + 4 * i;
    Strided from = key_at(c, keys, session, kv, min(chunk * 64 + key, keys.end - 1));
    quads[i] = quad_of(from.from, from.step_, slice * 64 + quad * 4, c.head_dim);
    places[i] = quad * 64 + key;
  }
  subgroupMemoryBarrierBuffer();  // all are under way before one is waited for (linear_row.comp)
  WEFT_UNROLL for (uint i = 0; i < 4; ++i) tile[places[i]] = operand(quads[i]);
}

void fetch_values(Call c, Keys keys, uint session, uint kv, uint chunk, uint slice) {
  vec4 quads[4];
  WEFT_UNROLL for (uint i = 0; i < 4; ++i) {
    uint id = gl_LocalInvocationID.x + 256 * i;
    Strided from = value_at(c, keys, session, kv, min(chunk * 64 + id / kQuads, keys.end - 1));
    quads[i] = quad_of(from.from, from.step_, slice * 64 + id % kQuads * 4, c.head_dim);
  }
  subgroupMemoryBarrierBuffer();
  WEFT_UNROLL for (uint i = 0; i < 4; ++i) tile[gl_LocalInvocationID.x + 256 * i] = operand(quads[i]);
}

// The rows of a group, and of a thread those whose scores it has.
struct Rows {
  uint session, kv, first, count;
  uint head[kOwn], t[kOwn];
  uvec2 seen[kOwn];
};

void fetch_scores(Call c, Keys keys, Rows rows, uint chunk, out float scores[kOwn][2]) {
  uint l = gl_LocalInvocationID.x % kLanes, own = gl_LocalInvocationID.x / kLanes * kOwn;
  WEFT_UNROLL for (uint i = 0; i < kOwn; ++i) scores[i][0] = scores[i][1] = 0.0;
  for (uint slice = 0; slice < SLICES; ++slice) {
    barrier();
    if (SLICES > 1) fetch_queries(c, rows.session, rows.kv, rows.first, rows.count, slice);
    fetch_keys(c, keys, rows.session, rows.kv, chunk, slice);
    barrier();
    float sums[kOwn][2];
    WEFT_UNROLL for (uint i = 0; i < kOwn; ++i) sums[i][0] = sums[i][1] = 0.0;
    uint quads = min((c.head_dim - slice * 64 + 3) / 4, kQuads);
    for (uint quad = 0; quad < quads; ++quad) {
      vec4 first_key = tile[quad * 64 + l], second_key = tile[quad * 64 + kLanes + l];
      WEFT_UNROLL for (uint i = 0; i < kOwn; ++i) {
        vec4 q = queries[(own + i) * kQuads + quad];
        WEFT_UNROLL for (uint e = 0; e < 4; ++e) {
          sums[i][0] = fused(first_key[e], q[e], sums[i][0]);
          sums[i][1] = fused(second_key[e], q[e], sums[i][1]);
        }
      }
    }
    WEFT_UNROLL for (uint i = 0; i < kOwn; ++i)
      WEFT_UNROLL for (uint k = 0; k < 2; ++k) scores[i][k] = add(scores[i][k], sums[i][k]);
  }
  WEFT_UNROLL for (uint i = 0; i < kOwn; ++i)
    WEFT_UNROLL for (uint k = 0; k < 2; ++k) {
      float score_ = mul(scores[i][k], flushed(c.scale));
      if (c.score_cap != 0.0) score_ = mul(c.score_cap, exact_tanh(mul(score_, flushed(c.inverse_cap))));
      uint j = chunk * 64 + k * kLanes + l;
      if (MASKED && j >= rows.seen[i].x && j < rows.seen[i].y)
        score_ = masked(c, rows.session, rows.head[i], rows.t[i], j, score_);
      scores[i][k] = score_;
    }
}

// Each thread's number for each of its rows, to be read by all threads of the row.
void exchange(float numbers[kOwn]) {
  uint l = gl_LocalInvocationID.x % kLanes, own = gl_LocalInvocationID.x / kLanes * kOwn;
  barrier();
  WEFT_UNROLL for (uint i = 0; i < kOwn; ++i) steps[(own + i) * kQuads + l / 4][l % 4] = numbers[i];
  barrier();
}

void attend(Call c, uint job, uint first) {
  uint id = gl_LocalInvocationID.x, l = id % kLanes, own = id / kLanes * kOwn, group = group_of(c);
  Rows rows;
  rows.session = (c.first_job + job) / c.kv_heads, rows.kv = (c.first_job + job) % c.kv_heads;
  rows.first = first, rows.count = c.tokens * group;
  Keys keys = keys_of(c, rows.session);
  WEFT_UNROLL for (uint i = 0; i < kOwn; ++i) {
    uint at = min(first + own + i, rows.count - 1);
    rows.t[i] = at / group, rows.head[i] = rows.kv * group + at % group;
    rows.seen[i] = visible(c, keys, rows.t[i]);
  }
  // Bounds of what any row sees, and of what all see.
  uvec2 of_first = visible(c, keys, first / group),
        of_last = visible(c, keys, (min(first + kRows, rows.count) - 1) / group);
  uint begin = of_first.x / 64, end = (of_last.y + 63) / 64;
  barrier();
  if (SLICES == 1) fetch_queries(c, rows.session, rows.kv, first, rows.count, 0);

  float scores[kOwn][2], largest[kOwn], sums[kOwn], lanes[kOwn][2];
  WEFT_UNROLL for (uint i = 0; i < kOwn; ++i) largest[i] = -INFINITY, lanes[i][0] = lanes[i][1] = 0.0;
  for (uint chunk = begin; chunk < end; ++chunk) {
    fetch_scores(c, keys, rows, chunk, scores);
    WEFT_UNROLL for (uint i = 0; i < kOwn; ++i)
      WEFT_UNROLL for (uint k = 0; k < 2; ++k) {
        uint j = chunk * 64 + k * kLanes + l;
        if (j >= rows.seen[i].x && j < rows.seen[i].y && scores[i][k] > largest[i]) largest[i] = scores[i][k];
      }
  }
  exchange(largest);
  WEFT_UNROLL for (uint i = 0; i < kOwn; ++i) {
    for (uint other = 0; other < kLanes; ++other) {
      float number = steps[(own + i) * kQuads + other / 4][other % 4];
      if (number > largest[i]) largest[i] = number;
    }
    largest[i] = add(largest[i], 0.0);
    if (MASKED && largest[i] == -INFINITY) largest[i] = 0.0;
  }

  // Of two of these rows a thread sums four elements.
  uint pair = id / 16 % 2 * 2, quad = id % 16, of_pair = own + pair;
  vec4 totals[SLICES][2];
  for (uint slice = 0; slice < SLICES; ++slice) totals[slice][0] = totals[slice][1] = vec4(0.0);
  for (uint chunk = begin; chunk < end; ++chunk) {
    fetch_scores(c, keys, rows, chunk, scores);
    WEFT_UNROLL for (uint i = 0; i < kOwn; ++i)
      WEFT_UNROLL for (uint k = 0; k < 2; ++k) {
        uint place = k * kLanes + l, j = chunk * 64 + place;
        float step_ = 0.0;
        if (j >= rows.seen[i].x && j < rows.seen[i].y) {
          step_ = MASKED ? exp_of_seen(scores[i][k], largest[i]) : exact_exp(sub(scores[i][k], largest[i]));
          lanes[i][k] = add(lanes[i][k], step_);
        }
        steps[(own + i) * kQuads + place / 4][place % 4] = step_;
      }
    bool is_whole = chunk * 64 >= of_last.x && chunk * 64 + 64 <= of_first.y;
    for (uint slice = 0; slice < SLICES; ++slice) {
      barrier();
      fetch_values(c, keys, rows.session, rows.kv, chunk, slice);
      barrier();
      vec4 sum[2] = vec4[2](vec4(0.0), vec4(0.0));
      for (uint four = 0; four < 16; ++four) {
        vec4 steps_of[2] = vec4[2](steps[of_pair * kQuads + four], steps[(of_pair + 1) * kQuads + four]);
        WEFT_UNROLL for (uint e = 0; e < 4; ++e) {
          uint key = four * 4 + e, j = chunk * 64 + key;
          vec4 value = tile[key * kQuads + quad];
          WEFT_UNROLL for (uint r = 0; r < 2; ++r)
            if (is_whole || j >= rows.seen[pair + r].x && j < rows.seen[pair + r].y)
              sum[r] = fused(value, steps_of[r][e], sum[r]);
        }
      }
      WEFT_UNROLL for (uint r = 0; r < 2; ++r) totals[slice][r] = add(totals[slice][r], sum[r]);
    }
  }

  // Lanes l and l + 32 are a thread's own; then all threads of a row fold alike.
  WEFT_UNROLL for (uint i = 0; i < kOwn; ++i) sums[i] = add(lanes[i][0], lanes[i][1]);
  exchange(sums);
  for (uint i = 0; i < kOwn; ++i) {
    float all[kLanes];
    for (uint other = 0; other < kLanes; ++other) all[other] = steps[(own + i) * kQuads + other / 4][other % 4];
    for (uint reach = kLanes / 2; reach > 0; reach /= 2)
      for (uint other = 0; other < reach; ++other) all[other] = add(all[other], all[other + reach]);
    sums[i] = MASKED && all[0] == 0.0 ? 1.0 : all[0];
    if (l != 0 || first + own + i >= rows.count) continue;
    Floats statistics = row_at(c.statistics, rows.session, c.statistics_stride);
    statistics.at[rows.head[i] * c.tokens + rows.t[i]] = largest[i];
    statistics.at[c.heads * c.tokens + rows.head[i] * c.tokens + rows.t[i]] = sums[i];
  }
  for (uint r = 0; r < 2; ++r) {
    if (first + of_pair + r >= rows.count) continue;
    Floats y = head_at(c.y, rows.session, c.y_stride, rows.t[pair + r], c.heads, rows.head[pair + r], c.head_dim);
    for (uint slice = 0; slice < SLICES; ++slice)
      for (uint e = 0; e < 4; ++e) {
        uint i = slice * 64 + quad * 4 + e;
        if (i < c.head_dim) y.at[i] = divide(add(totals[slice][r][e], 0.0), sums[pair + r]);
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
