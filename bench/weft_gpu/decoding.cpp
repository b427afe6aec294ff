// SPDX-License-Identifier: Apache-2.0
// Texts of language models of noise: tokens one by one behind texts of some lengths, and prompts. Beside a token stands
// the time in which the device copies as many bytes as the weights take, beside a prompt that of its products at the
// rate of float32.

#include "models/decoder_network.hpp"
#include "models/decoding_batch.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "bench/weft_gpu/gpu_bench.hpp"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace weft::bench {
namespace {

struct DecoderShape {
  const char* name;
  std::size_t vocabulary, width, blocks, heads, kv_heads, hidden;
  std::vector<std::size_t> before;  // tokens that stand before those that are timed
  std::size_t prompt;
};
const std::vector<DecoderShape> kDecoders{{"135M", 49152, 576, 30, 9, 3, 1536, {32, 1024}, 512},
                                          {"1.07B", 32000, 2048, 22, 32, 4, 5632, {32, 1024}, 512}};
const std::vector<DecoderShape> kSmallDecoders{{"tiny", 96, 64, 2, 4, 2, 128, {32}, 40}};

/// Noise for a billion weights in seconds: words that are floats of 2^-10 to 2^-9, and whose bytes are codes.
void fill(mesh::WeightStore& weights) {
  std::vector<std::uint32_t> noise(std::size_t{1} << 18);
  std::uint32_t state = 1;
  for (std::uint32_t& each : noise) {
    state = state * 1664525u + 1013904223u;
    each = 0x3a800000u | ((state >> 8 | 0x010101u) & 0x7f7f7fu);
  }
  for (std::size_t i = 0; i < weights.parameters().size(); ++i)
    weights.visit_memory(i, [&](const Field&, std::span<std::byte> memory) {
      for (std::size_t at = 0; at < memory.size(); at += noise.size() * sizeof noise[0])
        std::memcpy(memory.data() + at, noise.data(), std::min(memory.size() - at, noise.size() * sizeof noise[0]));
    });
}

mesh::Mesh mesh_of(const DecoderShape& shape, const Encoding& encoding, const std::string& device) {
  models::Decoder decoder;
  decoder.vocabulary = shape.vocabulary, decoder.width = shape.width, decoder.blocks = shape.blocks;
  decoder.heads = shape.heads, decoder.kv_heads = shape.kv_heads, decoder.head_dim = shape.width / shape.heads;
  decoder.hidden = shape.hidden, decoder.context = 2048, decoder.is_tied = true;
  decoder.rope.dims = decoder.head_dim;
  mesh::NetworkSpec spec = models::decoder_network(decoder, shape.name, 1).spec;
  for (mesh::LayerSpec& layer : spec.layers) {
    if (layer.type != "sequential" && layer.type != "dense") continue;  // the embedding has the head's matrix
    layer.dtype = encoding.dtype;
    if (has_scale(encoding.dtype)) layer.granularity = encoding.granularity;
  }
  mesh::MeshOptions options;
  options.device = device, options.keeps_masters = options.draws_weights = false;
  mesh::Mesh mesh = must(mesh::Mesh::build(spec, options));
  fill(mesh::MeshAccess::weights(mesh));
  return mesh;
}

std::vector<text::TokenId> ids_of(std::size_t count, std::size_t vocabulary) {
  std::vector<text::TokenId> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<text::TokenId>((17 + 31 * i) % vocabulary));
  return ids;
}

void measure(GpuBench& bench, const DecoderShape& shape, const Encoding& encoding) {
  const mesh::Mesh mesh = mesh_of(shape, encoding, bench.request.device);
  const auto bytes = static_cast<double>(mesh::MeshAccess::weights(mesh).bytes());
  const std::size_t most = *std::max_element(shape.before.begin(), shape.before.end());
  models::DecodingBatch batch = must(models::DecodingBatch::begin(mesh, 1, std::max(most, shape.prompt) + 512));
  const std::string name = std::string(shape.name) + " " + to_string(encoding);
  constexpr std::size_t kTokens = 8;  // of a round
  for (const std::size_t before : shape.before) {
    batch.restart(0);
    check(batch.take(0, ids_of(before, shape.vocabulary)));
    const auto write = [&] {
      for (const text::TokenId id : ids_of(kTokens, shape.vocabulary)) must(batch.accept(0, {&id, 1}));
      check(batch.roll_back(0, before));
    };
    const Times times = bench.measure(write, kTokens);
    bench.rows.add({"gpu/token " + name + " behind " + std::to_string(before),
                    1 / times.median,
                    "",
                    {},
                    {},
                    bench.bandwidth / bytes,
                    "tokens/s"});
  }
  batch.take_device_work();
  const text::TokenId one = 1;
  must(batch.accept(0, {&one, 1}));
  const auto work = batch.take_device_work();
  for (const auto& [what, count] : {std::pair("levels", work.levels), std::pair("dispatches", work.dispatches)})
    bench.rows.add({"gpu/token " + name + " " + what, static_cast<double>(count), "", {}, {}, {}, ""});
  const std::vector<text::TokenId> prompt = ids_of(shape.prompt, shape.vocabulary);
  const Times times = bench.measure(
      [&] {
        batch.restart(0);
        must(batch.accept(0, prompt));
      },
      static_cast<double>(shape.prompt));
  // Of a token, without attention and the head.
  const auto products =
      static_cast<double>(shape.blocks * shape.width *
                          (2 * shape.width + 2 * shape.kv_heads * (shape.width / shape.heads) + 3 * shape.hidden));
  bench.rows.add({"gpu/prompt " + name + " of " + std::to_string(shape.prompt),
                  1 / times.median,
                  "",
                  {},
                  {},
                  bench.peak / (2 * products),
                  "tokens/s"});
}

}  // namespace

void gpu_decoding(GpuBench& bench) {
  for (const DecoderShape& shape : bench.is_real ? kDecoders : kSmallDecoders)
    for (const Encoding& encoding :
         {Encoding(Dtype::float32), Encoding(Dtype::int8, Granularity::block32), Encoding(Dtype::int4)})
      measure(bench, shape, encoding);
}

}  // namespace weft::bench
