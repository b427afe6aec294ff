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

/// Of each row `tokens` tokens of `width` values and their mask, by `mask(row, token)`.
template <class Mask>
std::vector<float> with_mask(const std::vector<float>& values, std::size_t width, std::size_t tokens,
                             const Mask& mask) {
  std::vector<float> x;
  for (std::size_t at = 0; at * width < values.size(); ++at) {
    x.insert(x.end(), values.begin() + static_cast<std::ptrdiff_t>(at * width),
             values.begin() + static_cast<std::ptrdiff_t>(at * width + width));
    for (const float number : mask(at / tokens, at % tokens)) x.push_back(number);
  }
  return x;
}

// Of a padded sequence the tokens that count have the bits, forwards and backwards, of the sequence without padding;
// what is hidden gets no error, nor does anything from what pads.
TEST(Attention, GivesPaddedSequencesTheBitsThatTheyHaveAlone) {
  constexpr std::size_t kRows = 3, kTokens = 70, kWidth = 12, kOut = 5;
  const std::size_t lengths[kRows] = {70, 66, 3};
  const std::vector<float> values = noise(kRows * kTokens * kWidth, 11);
  for (const float hidden : {-1e30f, -std::numeric_limits<float>::infinity(), -3e38f}) {
    Options masked = {{"heads", 3.0}, {"rope", std::string("half")}, {"qk_norm", std::string("rms")}}, plain = masked;
    masked["mask"] = std::string("keys");
    goldens::Sequence padded(goldens::layer("attention", masked, kOut), Shape{kTokens, kWidth + 1}, 1, kRows);
    padded.x = with_mask(values, kWidth, kTokens, [&](std::size_t row, std::size_t token) {
      return std::vector<float>{token < lengths[row] ? 0.0f : hidden};
    });
    for (std::size_t i = 0; i < padded.dy.size(); ++i)
      if (i / kOut % kTokens >= lengths[i / kOut / kTokens]) padded.dy[i] = 0.0f;  // padding has no loss
    padded.forward(0, kRows);
    padded.backward();
    for (std::size_t row = 0; row < kRows; ++row) {
      SCOPED_TRACE("row " + std::to_string(row) + ", hidden by " + std::to_string(hidden));
      const std::size_t length = lengths[row];
      const auto part = [&](const std::vector<float>& of, std::size_t width, std::size_t count) {
        const auto first = of.begin() + static_cast<std::ptrdiff_t>(row * kTokens * width);
        return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(count * width));
      };
      goldens::Sequence alone(goldens::layer("attention", plain, kOut), Shape{length, kWidth}, 1, 1);
      alone.x = part(values, kWidth, length);
      alone.dy = part(padded.dy, kOut, length);
      alone.forward(0, 1);
      alone.backward();
      EXPECT_EQ(bits(part(padded.y, kOut, length)), bits(alone.y));
      const std::vector<float> dx = part(padded.dx, kWidth + 1, kTokens);
      for (std::size_t t = 0; t < kTokens; ++t)
        for (std::size_t i = 0; i <= kWidth; ++i) {
          const float error = dx[t * (kWidth + 1) + i];
          if (t >= length)
            ASSERT_EQ(error, 0.0f) << "token " << t << ", " << i;
          else if (i < kWidth)
            ASSERT_EQ(error, alone.dx[t * kWidth + i]) << "token " << t << ", " << i;
        }
    }
  }
}

// A token that sees nothing takes nothing from the heads: the output's bias is left. It sends no error back.
TEST(Attention, GivesZeroWhereAllKeysAreHidden) {
  constexpr std::size_t kTokens = 4, kWidth = 6;
  goldens::Sequence run(goldens::layer("attention", {{"heads", 2.0}, {"mask", std::string("scores")}}),
                        Shape{kTokens, kWidth + kTokens}, 1, 2);
  run.x = with_mask(noise(2 * kTokens * kWidth, 5), kWidth, kTokens, [](std::size_t, std::size_t token) {
    return std::vector<float>(kTokens, token == 2 ? -1e30f : 0.25f);
  });
  run.forward(0, 2);
  for (std::size_t i = 0; i < run.dy.size(); ++i)
    if (i / kWidth % kTokens != 2) run.dy[i] = 0.0f;
  run.backward();
  const std::vector<float> bias = run.parameter(7);
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t i = 0; i < kWidth; ++i) EXPECT_EQ(run.y[(row * kTokens + 2) * kWidth + i], bias[i]);
  for (const float error : run.dx) EXPECT_EQ(error, 0.0f);
}

// The mask is a source of its own: an input of each sample, or what a layer makes.
TEST(Attention, TakesItsMaskFromASecondSource) {
  Mesh mesh = must(Mesh::build(NetworkBuilder("masked", {1, 1, 1, 1})
                                   .input("x", std::vector<std::size_t>{3, 4})
                                   .input("mask", std::vector<std::size_t>{3, 1})
                                   .layer({0, 0, 0, 0}, "attention", 4)
                                   .from({"x", "mask"})
                                   .option("mask", std::string("keys"))
                                   .output("y", {0, 0, 0, 0})
                                   .spec(),
                               {.threads = 1}));
  std::vector<float> x = noise(12, 3);
  must(mesh.set_input("mask", std::vector<float>{0, 0, -1e30f}));
  const auto answer = [&] {
    must(mesh.set_input("x", x));
    must(mesh.tick());
    return output_of(mesh, {0, 0, 0, 0});
  };
  const auto before = answer();
  for (std::size_t i = 8; i < 12; ++i) x[i] += 3.0f;
  const auto after = answer();
  EXPECT_EQ(bits({before.begin(), before.begin() + 8}), bits({after.begin(), after.begin() + 8}));
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
