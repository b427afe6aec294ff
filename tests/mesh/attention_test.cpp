// SPDX-License-Identifier: Apache-2.0

// attention against PyTorch, in meshes, across files. The kernels' own: tests/kernels/attention_test.cpp.

#include "kernels/attention.hpp"

#include "mesh/persistence/entity_model.hpp"

#include "kernels/isa.hpp"

#include "goldens.hpp"

namespace weft::mesh::attention_test {
namespace {

using testing_support::bits;
using testing_support::expect_error;
using testing_support::must;
using testing_support::noise;
using testing_support::output_of;
using testing_support::run_ticks;

LayerSpec spec_of(Options options, std::size_t out = 0) {
  LayerSpec spec;
  spec.type = "attention";
  spec.out = out;
  spec.options = std::move(options);
  return spec;
}

/// A bias of keys shifts all scores of a query alike, and a softmax does not see that: its gradient is 0, and both
/// sides have but rounding errors to show. (Not where keys are turned or normalised after it.)
bool is_in_vain(const goldens::Golden& golden, const std::string& parameter) {
  return parameter == "key_bias" && !golden.spec.options.contains("rope") && !golden.spec.options.contains("qk_norm");
}
/// 1e-5 of the gradient of the queries' bias, which is made of the same sums.
void expect_zeros(const std::vector<float>& got, const std::vector<double>& want,
                  const std::vector<double>& of_queries) {
  double scale = 0;
  for (const double v : of_queries) scale = std::max(scale, std::fabs(v));
  for (const double v : want) ASSERT_LE(std::fabs(v), 1e-15);
  for (const float v : got) ASSERT_LE(std::fabs(v), 1e-5 * scale);
}

TEST(Attention, ComputesAndSendsBackWhatPyTorchDoes) {
  const auto rows = goldens::read("attention");
  ASSERT_GE(rows.size(), 12u);
  for (const goldens::Golden& golden : rows) {
    std::string label = weft::to_string(golden.in) + " to " + std::to_string(golden.out) + ":";
    for (const auto& option : golden.spec.options) label += " " + option.first;
    SCOPED_TRACE(label);
    goldens::Sequence run(golden.spec, golden.in, golden.ticks, golden.rows);
    run.forward(0, golden.rows);
    goldens::expect_equal(run.y, golden.y, "y");
    // Nothing but the outputs is judged. The random state stands at position 0, so nobody looks at its keys.
    std::fill(run.dstate.begin(), run.dstate.end(), 0.0f);
    run.backward();
    goldens::expect_equal(run.dx, golden.dx, "dx");
    for (const float v : run.dstate) ASSERT_EQ(v, 0.0f) << "keys that nobody saw";
    ASSERT_EQ(run.layer->parameters().size(), golden.gradients.size());
    for (std::size_t i = 0; i < golden.gradients.size(); ++i)
      if (is_in_vain(golden, run.layer->parameters()[i].name))
        expect_zeros(run.gradient(i), golden.gradients[i], golden.gradients[i - 1]);
      else
        goldens::expect_equal(run.gradient(i), golden.gradients[i], run.layer->parameters()[i].name);

    goldens::Sequence alone(golden.spec, golden.in, golden.ticks, golden.rows);
    for (std::size_t b = golden.rows; b-- > 0;) alone.forward(b, 1);
    EXPECT_EQ(bits(alone.y), bits(run.y)) << "rows one at a time";
    EXPECT_EQ(bits(alone.state), bits(run.state)) << "rows one at a time";
  }
}

const std::vector<Options>& remembering() {
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
  const kernels::Isa before = kernels::active_isa();
  for (const kernels::Isa isa : kernels::available_isas()) {
    must(kernels::set_active_isa(isa));
    for (const Options& options : remembering()) {
      goldens::Sequence whole(spec_of(options), Shape{kTokens, kWidth}, 1, 1);
      whole.forward(0, 1);
      for (const std::size_t tokens : {1, 3, 24, 36}) {
        const Shape shape = tokens == 1 ? Shape{kWidth} : Shape{tokens, kWidth};
        goldens::Sequence parts(spec_of(options), shape, kTokens / tokens, 1);
        ASSERT_EQ(bits(parts.x), bits(whole.x));
        parts.forward(0, 1);
        EXPECT_EQ(bits(parts.y), bits(whole.y)) << tokens << " tokens a tick on " << kernels::name(isa);
        EXPECT_EQ(bits(parts.last_state()), bits(whole.last_state())) << tokens << " tokens a tick";
      }
    }
  }
  must(kernels::set_active_isa(before));
}

// And so do the gradients, through the cache, up to the order of sums.
TEST(Attention, LearnsFromTokensThroughTheCacheAsFromAWholeSequence) {
  constexpr std::size_t kTokens = 24, kWidth = 8;
  for (const Options& options : remembering()) {
    goldens::Sequence whole(spec_of(options, 6), Shape{kTokens, kWidth}, 1, 1);
    goldens::Sequence parts(spec_of(options, 6), Shape{kWidth}, kTokens, 1);
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

TEST(Attention, KnowsItsSizes) {
  const auto layer = must(make_layer(
      spec_of(
          {{"heads", 4.0}, {"kv_heads", 2.0}, {"head_dim", 5.0}, {"context", 20.0}, {"qk_norm", std::string("rms")}},
          7),
      Shape{3, 6}, "layer"));
  EXPECT_EQ(layer->out_shape(), (Shape{3, 7}));
  EXPECT_EQ(layer->state_size(), 16u + 2 * 32 * (5 + 16)) << "a header; rings of 32 keys of 5 and values of 16";
  EXPECT_EQ(layer->mixing_matrix(), -1);
  const struct {
    const char* name;
    std::size_t out, in;
  } want[] = {{"query", 20, 6},      {"key", 10, 6},      {"value", 10, 6},      {"output", 7, 20},
              {"query_bias", 20, 0}, {"key_bias", 10, 0}, {"value_bias", 10, 0}, {"output_bias", 7, 0},
              {"query_gain", 5, 0},  {"key_gain", 5, 0}};
  ASSERT_EQ(layer->parameters().size(), std::size(want));
  for (std::size_t i = 0; i < std::size(want); ++i) {
    EXPECT_EQ(layer->parameters()[i].name, want[i].name);
    EXPECT_EQ(layer->parameters()[i].out, want[i].out);
    EXPECT_EQ(layer->parameters()[i].in, want[i].in);
    EXPECT_EQ(layer->parameters()[i].decays, want[i].in != 0);
  }
  EXPECT_EQ(must(make_layer(spec_of({}), Shape{9}, "layer"))->out_shape(), Shape{9}) << "as wide as the input";
  // Memory for backward grows with the tokens, not with their square.
  const auto cache = [](std::size_t tokens) {
    return must(make_layer(spec_of({{"heads", 2.0}}), Shape{tokens, 8}, "layer"))->cache_size();
  };
  EXPECT_EQ(cache(200), 2 * cache(100));
}

TEST(Attention, RefusesOptionsThatAreWrong) {
  goldens::expect_refused("attention", {{"heads", 3.0, Errc::out_of_range, "4 values is not 3 equal heads"},
                                        {"heads", 0.0, Errc::out_of_range, "0"},
                                        {"kv_heads", 2.0, Errc::out_of_range, "1 heads do not fall into 2"},
                                        {"head_dim", 2.5, Errc::out_of_range, "2.5"},
                                        {"context", -1.0, Errc::out_of_range, "-1"},
                                        {"causal", 1.0, Errc::parse_failed, "true or false"},
                                        {"rope", std::string("full"), Errc::unknown_name, "half, interleaved"},
                                        {"rope_theta", 500.0, Errc::unknown_name, "no such option"},
                                        {"qk_norm", std::string("batch"), Errc::unknown_name, "rms, layer"},
                                        {"epsilon", 0.5, Errc::unknown_name, "no such option"},
                                        {"scale", 0.0, Errc::out_of_range, "0"},
                                        {"init", std::string("glorot"), Errc::unknown_name, "xavier, he"}});
  const auto refuse = [](const Options& options, const Shape& in, Errc code, const std::string& fragment) {
    expect_error(make_layer(spec_of(options), in, "layers[3]"), code, {"layers[3]", fragment});
  };
  const std::string half = "half";
  refuse({{"heads", 2.0}, {"kv_heads", 2.0}, {"context", 4.0}, {"window", 5.0}}, {4}, Errc::out_of_range, "5 tokens");
  refuse({{"context", 4.0}, {"causal", false}}, {4}, Errc::out_of_range, "causal");
  refuse({{"heads", 6.0}, {"kv_heads", 4.0}, {"head_dim", 2.0}}, {4}, Errc::out_of_range, "6 heads");
  refuse({{"rope", half}}, {2, 3}, Errc::out_of_range, "head_dim of 3");
  refuse({{"rope", half}, {"head_dim", 2.0}, {"rope_scaling", std::string("ntk")}}, {3}, Errc::out_of_range, "above 2");
  refuse({{"rope", half}, {"rope_scaling", std::string("yarn")}}, {4}, Errc::unknown_name, "linear, ntk, llama3");
  refuse({{"rope", half}, {"rope_scaling", std::string("llama3")}, {"rope_high_freq_factor", 1.0}}, {4},
         Errc::out_of_range, "rope_low_freq_factor");
  refuse({{"rope", half}, {"rope_scaling", std::string("linear")}, {"rope_high_freq_factor", 2.0}}, {4},
         Errc::unknown_name, "no such option");
  refuse({{"heads", 65536.0}, {"head_dim", 257.0}}, {4}, Errc::out_of_range, "65536 heads of 257");
  refuse({{"context", 16777216.0}, {"heads", 64.0}, {"head_dim", 64.0}}, {4}, Errc::out_of_range, "16777216 tokens");
  refuse({}, {2, 3, 4}, Errc::shape_mismatch, "[2, 3, 4]");
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

TEST(Attention, RunsManyTicksAtOnceAsOneByOne) {
  constexpr std::uint64_t kTicks = 40;
  std::vector<float> x;
  for (std::uint64_t t = 0; t < kTicks; ++t) {
    const auto row = noise(5, 100 + t);
    x.insert(x.end(), row.begin(), row.end());
  }
  Mesh one = must(Mesh::build(network(), {.threads = 1}));
  run_ticks(one, 0, kTicks);
  for (const std::size_t threads : {1, 2, 7}) {
    Mesh all = must(Mesh::build(network(), {.threads = threads, .grain_bytes = 0}));
    const RunInput input{"x", x};
    must(all.run({&input, 1}, kTicks));
    EXPECT_EQ(to_string(all.state_hash()), to_string(one.state_hash())) << threads << " threads";
  }
}

// The original let queries of one sample see keys of others.
TEST(Attention, AcrossBatchSamplesKeepsSessionsApartAndForgetsOnReset) {
  Mesh both = must(Mesh::build(network(), {.threads = 1, .sessions = 2}));
  for (std::uint64_t t = 0; t < 9; ++t) {
    must(both.set_input("x", noise(5, 900 + t), 1));
    run_ticks(both, t, t + 1, 0);
  }
  Mesh alone = must(Mesh::build(network(), {.threads = 1}));
  run_ticks(alone, 0, 9);
  EXPECT_EQ(bits(output_of(both, {0, 0, 1, 0}, 0)), bits(output_of(alone, {0, 0, 1, 0})));
  EXPECT_NE(bits(output_of(both, {0, 0, 1, 0}, 1)), bits(output_of(alone, {0, 0, 1, 0})));
  must(both.reset_session(0));
  run_ticks(both, 0, 9, 0);
  EXPECT_EQ(bits(output_of(both, {0, 0, 1, 0}, 0)), bits(output_of(alone, {0, 0, 1, 0})));
}

TEST(Attention, GoesOnFromAFileWithItsCache) {
  Mesh unbroken = must(Mesh::build(network(), {.threads = 1}));
  run_ticks(unbroken, 0, 9);
  const auto bytes = must(encode_mesh(unbroken, true));
  run_ticks(unbroken, 9, 13);
  const auto file = must(formats::decode_entity(ByteSpan(bytes), "test"));
  for (const bool with_state : {true, false}) {
    Mesh again = must(Mesh::build(must(network_of(file)), {.threads = 2, .grain_bytes = 0}));
    must(restore_weights(again, file));
    if (with_state) must(restore_live(again, file));
    run_ticks(again, 9, 13);
    EXPECT_EQ(bits(output_of(again, {0, 0, 1, 0})) == bits(output_of(unbroken, {0, 0, 1, 0})), with_state);
    EXPECT_EQ(again.state_hash() == unbroken.state_hash(), with_state);
  }
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
