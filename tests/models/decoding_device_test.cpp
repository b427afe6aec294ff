// SPDX-License-Identifier: Apache-2.0
// Texts on a device: the CPU's bits. Skipped where no Vulkan device opens; WEFT_TEST_DEVICE names one.

#include "models/decoding_batch.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"

#include "gpu/fault_injection.hpp"

#include <gtest/gtest.h>

#include "tests/mesh/on_device.hpp"
#include "tests/models/imported.hpp"
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weft::models::decoding_device_test {
namespace {

constexpr std::size_t kContext = 200, kVocabulary = 50;
using Bits = std::vector<std::uint32_t>;

Bits bits_of(std::span<const float> values) {
  Bits bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

/// Two blocks as language models have them, wide enough that a layer's groups share its sums: norms that each layer of
/// few rows makes itself, and sums behind them.
std::string wide_network(const std::string& dtype, const std::string& activations = "int8") {
  const auto block = [&](const std::string& at, const std::string& more) {
    return R"({"at": [0, 0, )" + at + R"(, 0], "type": "sequential", "dtype": ")" + dtype + R"(", "activations": ")" +
           activations + R"(", "layers": [
      {"type": "rms_norm"},
      {"type": "attention", "heads": 6, "kv_heads": 2, "causal": true, "rope": "half", "name": "a")" +
           more + R"(},
      {"type": "residual", "from": ["input", "a"], "name": "m"}, {"type": "rms_norm"},
      {"type": "swiglu", "hidden": 200, "name": "f"}, {"type": "residual", "from": ["m", "f"]}]}, )";
  };
  return R"({"weft": 2, "name": "texts", "seed": 3, "grid": {"z": 1, "y": 1, "x": 5, "layers": 1},
    "inputs": {"tokens": [4]}, "layers": [
    {"at": [0, 0, 0, 0], "type": "embedding", "out": 168, "vocabulary": 50, "from": ["tokens"]}, )" +
         block("1", "") + block("2", R"(, "window": 24, "qk_norm": "rms", "rope_dims": 12, "bias": true)") + R"(
    {"at": [0, 0, 3, 0], "type": "rms_norm"}, {"at": [0, 0, 4, 0], "type": "dense", "out": 50}],
    "outputs": {"logits": [0, 0, 4, 0]}})";
}

/// Two blocks as language models have them; the second one's attention has a window.
std::string network(const std::string& dtype) {
  const auto block = [&](const std::string& at, const std::string& window) {
    return R"({"at": [0, 0, )" + at + R"(, 0], "type": "sequential", "dtype": ")" + dtype + R"(", "layers": [
      {"type": "rms_norm"}, {"type": "attention", "heads": 4, "kv_heads": 2, "causal": true, "rope": "half")" +
           window + R"(}, {"type": "rms_norm"}, {"type": "swiglu", "hidden": 32}]}, )";
  };
  return R"({"weft": 2, "name": "texts", "seed": 3, "grid": {"z": 1, "y": 1, "x": 5, "layers": 1},
    "inputs": {"tokens": [4]}, "layers": [
    {"at": [0, 0, 0, 0], "type": "embedding", "out": 16, "vocabulary": 50, "from": ["tokens"]}, )" +
         block("1", "") + block("2", R"(, "window": 24)") + R"(
    {"at": [0, 0, 3, 0], "type": "rms_norm"}, {"at": [0, 0, 4, 0], "type": "dense", "out": 50}],
    "outputs": {"logits": [0, 0, 4, 0]}})";
}

Result<mesh::Mesh> mesh_of(const std::string& text, const std::string& device,
                           std::shared_ptr<gpu::FaultInjection> faults = {}) {
  WEFT_TRY(const mesh::NetworkSpec spec, mesh::read_network(text, "test"));
  mesh::MeshOptions options;
  options.device = device;
  options.validates_device = device != "cpu" && std::getenv("WEFT_TEST_NO_VALIDATION") == nullptr;
  return faults ? mesh::MeshAccess::build(spec, options, faults) : mesh::Mesh::build(spec, options);
}

std::vector<text::TokenId> ids_of(std::size_t seed, std::size_t count) {
  std::vector<text::TokenId> ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<text::TokenId>((seed * 17 + i * i * 7 + i) % kVocabulary));
  return ids;
}

/// All that a batch can do; the bits of all that comes of it.
std::vector<Bits> use(DecodingBatch& batch, const std::function<void()>& in_the_middle = {}) {
  std::vector<Bits> all;
  const auto note = [&](const Result<std::span<const float>>& logits) {
    ASSERT_TRUE(logits) << logits.error().text();
    all.push_back(bits_of(*logits));
  };
  note(batch.accept(0, ids_of(1, 141)));  // passes of 128, 8 and 1
  note(batch.accept(1, ids_of(2, 33)));
  note(batch.accept(2, ids_of(3, 3)));
  all.push_back(bits_of(batch.features()));
  std::vector<DecodingBatch::Step> steps(3);
  for (std::size_t round = 0; round < 12; ++round) {
    if (round == 6 && in_the_middle) in_the_middle();
    std::vector<DecodingBatch::Step> now;
    for (std::size_t i = 0; i < 3; ++i)
      if (round % 4 != i)
        now.push_back({.sequence = i, .id = static_cast<text::TokenId>((round * 5 + i) % kVocabulary)});
    EXPECT_TRUE(batch.step(now));
    for (const DecodingBatch::Step& each : now) all.push_back(bits_of(each.logits));
  }
  note(batch.accept_each(1, ids_of(4, 7)));  // on a device in a pass of 8
  all.push_back(bits_of(batch.features()));
  EXPECT_TRUE(batch.roll_back(1, 20));
  for (const std::size_t tokens : {2, 11}) note(batch.accept_each(1, ids_of(5, tokens)));
  batch.restart(0);
  const auto prompt = ids_of(6, 50);
  note(batch.accept(0, prompt));
  batch.release(2);
  note(batch.accept(2, ids_of(7, 12)));
  std::vector<float> part(batch.part_size(32));
  batch.save_part(0, 16, 32, part.data());
  all.push_back(bits_of(part));
  EXPECT_TRUE(batch.roll_back(2, 0));
  note(batch.accept(2, std::span(prompt).first(16)));
  batch.load_part(part.data(), 2, std::span(prompt).subspan(16, 32), 16);
  note(batch.accept(2, ids_of(8, 5)));
  note(batch.accept(2, ids_of(9, kContext - 2 - batch.position(2))));
  note(batch.accept_each(2, ids_of(10, 2)));  // no room for what a wider pass would take
  for (std::size_t i = 0; i < 3; ++i) {
    const Hash128 hash = batch.state_hash(i);
    all.push_back({static_cast<std::uint32_t>(hash.high), static_cast<std::uint32_t>(hash.low),
                   static_cast<std::uint32_t>(batch.position(i))});
  }
  return all;
}

void expect_equal(const std::vector<Bits>& got, const std::vector<Bits>& wanted, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i] == wanted[i]) << what << ", result " << i;
}

void expect_cpus_bits(const std::string& text, const std::string& what) {
  const auto here = mesh_of(text, "cpu"), there = mesh_of(text, mesh::testing_support::device_name());
  ASSERT_TRUE(here) << here.error().text();
  ASSERT_TRUE(there) << there.error().text();
  auto cpu = DecodingBatch::begin(*here, 3, kContext), device = DecodingBatch::begin(*there, 3, kContext);
  ASSERT_TRUE(cpu) << cpu.error().text();
  ASSERT_TRUE(device) << device.error().text();
  EXPECT_FALSE(cpu->is_on_device());
  EXPECT_TRUE(device->is_on_device());
  expect_equal(use(*device), use(*cpu), what);
  EXPECT_TRUE(device->is_on_device());
}

TEST(DecodingDevice, HasTheCpusBits) {
  const auto held = mesh::testing_support::open_device(mesh::testing_support::device_options());
  for (const std::string dtype : {"float32", "int8"}) expect_cpus_bits(wide_network(dtype), "wide " + dtype);
  if (held->info().kind == "cpu") return;  // which compiles the shaders of each type for seconds
  for (const std::string dtype : {"float32", "bfloat16", "int8", "int4", "ternary"})
    expect_cpus_bits(network(dtype), dtype);
  for (const std::string dtype : {"bfloat16", "uint4"}) expect_cpus_bits(wide_network(dtype), "wide " + dtype);
  expect_cpus_bits(wide_network("ternary", "int8_row"), "wide ternary");
}

// In the middle of a step, of a prompt, and where states come back: what was taken is computed again.
TEST(DecodingDevice, LosesNothingWithTheDevice) {
  const std::string text = network("float32");
  const auto here = mesh_of(text, "cpu");
  ASSERT_TRUE(here) << here.error().text();
  auto cpu = DecodingBatch::begin(*here, 3, kContext);
  ASSERT_TRUE(cpu) << cpu.error().text();
  const std::vector<Bits> wanted = use(*cpu);
  if (mesh::testing_support::is_device_absent()) GTEST_SKIP() << "no Vulkan device";
  for (const std::uint64_t after : {3u, 9u}) {
    const auto faults = std::make_shared<gpu::FaultInjection>();
    const auto there = mesh_of(text, mesh::testing_support::device_name(), faults);
    ASSERT_TRUE(there) << there.error().text();
    auto device = DecodingBatch::begin(*there, 3, kContext);
    ASSERT_TRUE(device) << device.error().text();
    ASSERT_TRUE(device->is_on_device());
    const auto lose = [&] { faults->fail(gpu::DriverFault::lost_at_submit, after, 1000); };
    expect_equal(use(*device, lose), wanted, "lost after " + std::to_string(after) + " submissions");
    EXPECT_GT(faults->failed(), 0u) << after;
    EXPECT_FALSE(device->is_on_device()) << after;
  }
}

// A device without room for it, and a state that is no tokens': the CPU computes, and says so where it was to be
// expected.
TEST(DecodingDevice, StaysOnTheCpuWhereTheDeviceCannot) {
  if (mesh::testing_support::is_device_absent()) GTEST_SKIP() << "no Vulkan device";
  const auto recurrent = mesh_of(R"({"weft": 2, "seed": 3, "grid": {"z": 1, "y": 1, "x": 3, "layers": 1},
      "inputs": {"tokens": [1]}, "layers": [
      {"at": [0, 0, 0, 0], "type": "embedding", "out": 8, "vocabulary": 50, "from": ["tokens"]},
      {"at": [0, 0, 1, 0], "type": "gru", "out": 8, "stateful": true},
      {"at": [0, 0, 2, 0], "type": "dense", "out": 50}], "outputs": {"logits": [0, 0, 2, 0]}})",
                                 mesh::testing_support::device_name());
  ASSERT_TRUE(recurrent) << recurrent.error().text();
  auto batch = DecodingBatch::begin(*recurrent, 2, 40);
  ASSERT_TRUE(batch) << batch.error().text();
  EXPECT_FALSE(batch->is_on_device());
  EXPECT_TRUE(batch->accept(0, ids_of(1, 9)));
}

}  // namespace
}  // namespace weft::models::decoding_device_test
