// SPDX-License-Identifier: Apache-2.0

// attention over tokens of a tick and of ticks. PyTorch: layer_goldens_test.cpp; the kernels' own:
// tests/kernels/attention_test.cpp; in meshes and files: layer_states_test.cpp.

#include "kernels/attention.hpp"

#include "mesh/persistence/entity_model.hpp"

#include "kernels/isa.hpp"

#include "goldens.hpp"

namespace weft::mesh::attention_test {
namespace {

using namespace testing_support;

const std::vector<Options>& options_with_memory() {
  static const std::vector<Options> all = {
      {{"heads", 4.0}, {"kv_heads", 2.0}, {"context", 10.0}, {"rope", std::string("half")}},
      {{"heads", 2.0}, {"context", 33.0}, {"window", 9.0}, {"qk_norm", std::string("rms")}},
      {{"heads", 3.0},
       {"head_dim", 10.0},
       {"kv_heads", 1.0},
       {"context", 64.0},
       {"rope", std::string("interleaved")},
       {"qk_norm", std::string("layer")}}};
  return all;
}

// 72 tokens in one tick, in ticks of several, in ticks of one: the rings wrap.
TEST(Attention, PrefillsInOneTickWhatItDecodesTokenByToken) {
  constexpr std::size_t kTokens = 72, kWidth = 8;
  for (const kernels::Isa isa : kernels::available_isas()) {
    const ForIsa scope(isa);
    for (const Options& options : options_with_memory()) {
      goldens::Sequence whole(goldens::layer("attention", options), Shape{kTokens, kWidth}, 1, 1);
      whole.forward(0, 1);
      for (const std::size_t tokens : {1, 3, 24, 36}) {
        const Shape shape = tokens == 1 ? Shape{kWidth} : Shape{tokens, kWidth};
        goldens::Sequence parts(goldens::layer("attention", options), shape, kTokens / tokens, 1);
        ASSERT_EQ(bits(parts.x), bits(whole.x));
        parts.forward(0, 1);
        EXPECT_EQ(bits(parts.y), bits(whole.y)) << tokens << " tokens a tick on " << kernels::name(isa);
        EXPECT_EQ(bits(parts.last_state()), bits(whole.last_state())) << tokens << " tokens a tick";
      }
    }
  }
}

// And so do the gradients, through the cache, up to the order of sums.
TEST(Attention, LearnsFromTokensThroughTheCacheAsFromAWholeSequence) {
  constexpr std::size_t kTokens = 24, kWidth = 8;
  for (const Options& options : options_with_memory()) {
    goldens::Sequence whole(goldens::layer("attention", options, 6), Shape{kTokens, kWidth}, 1, 1);
    goldens::Sequence parts(goldens::layer("attention", options, 6), Shape{kWidth}, kTokens, 1);
    for (goldens::Sequence* run : {&whole, &parts}) {
      run->forward(0, 1);
      run->backward();  // an error of the last state too
    }
    const auto wide = [](const std::vector<float>& v) { return std::vector<double>(v.begin(), v.end()); };
    goldens::expect_equal(parts.dx, wide(whole.dx), "dx");
    for (std::size_t i = 0; i < whole.layer->parameters().size(); ++i)
      goldens::expect_equal(parts.gradient(i), wide(whole.gradient(i)), whole.layer->parameters()[i].name);
  }
}

/// The layer under test between dense ones, a token a tick.
NetworkSpec network() {
  return NetworkBuilder("memory", {1, 1, 3, 1})
      .input("x", 5)
      .dense({0, 0, 0, 0}, 8, kernels::Activation::tanh)
      .layer({0, 0, 1, 0}, "attention", 9)
      .option("heads", 4.0)
      .option("kv_heads", 2.0)
      .option("context", 6.0)
      .option("rope", std::string("half"))
      .dense({0, 0, 2, 0}, 3)
      .output("y", {0, 0, 2, 0})
      .seed(4)
      .spec();
}

// Ticks of several tokens in a mesh are the ticks of one token, several at once.
TEST(Attention, TakesSequencesAsTicksOfItsMesh) {
  constexpr std::size_t kTokens = 4, kTicks = 5;
  const auto of = [](std::vector<std::size_t> shape) {
    return NetworkBuilder("sequences", {1, 1, 1, 1})
        .input("x", std::move(shape))
        .layer({0, 0, 0, 0}, "attention", 6)
        .option("heads", 2.0)
        .option("context", 7.0)
        .option("rope", std::string("interleaved"))
        .output("y", {0, 0, 0, 0})
        .seed(4)
        .spec();
  };
  Mesh several = must(Mesh::build(of({kTokens, 8}), {.threads = 1}));
  Mesh single = must(Mesh::build(of({8}), {.threads = 1}));
  for (std::size_t tick = 0; tick < kTicks; ++tick) {
    const auto x = noise(kTokens * 8, 70 + tick);
    must(several.set_input("x", x));
    must(several.tick());
    const auto y = output_of(several, {0, 0, 0, 0});
    for (std::size_t t = 0; t < kTokens; ++t) {
      must(single.set_input("x", {x.data() + t * 8, 8}));
      must(single.tick());
      EXPECT_EQ(bits(output_of(single, {0, 0, 0, 0})),
                bits(std::vector<float>(y.begin() + t * 6, y.begin() + t * 6 + 6)))
          << "tick " << tick << ", token " << t;
    }
  }
}

// Evicted tokens are gone: two sessions that differ only further back than the context are equal from then on.
TEST(Attention, ForgetsExactlyWhatIsFurtherBackThanItsContext) {
  Mesh one = must(Mesh::build(network(), {.threads = 1})), other = must(Mesh::build(network(), {.threads = 1}));
  for (std::uint64_t t = 0; t < 20; ++t) {
    for (Mesh* mesh : {&one, &other}) {
      must(mesh->set_input("x", noise(5, t == 4 && mesh == &other ? 999 : 100 + t)));
      must(mesh->tick());
    }
    // The input of tick 4 reaches the layer's output two ticks later, and is seen for six tokens.
    const bool sees = t >= 5 && t < 11;
    EXPECT_EQ(bits(output_of(one, {0, 0, 1, 0})) != bits(output_of(other, {0, 0, 1, 0})), sees) << "tick " << t;
  }
}

}  // namespace
}  // namespace weft::mesh::attention_test
