// SPDX-License-Identifier: Apache-2.0

// The softmax layer's options. Values, finite differences and single rows of a batch: layers_test.cpp.

#include "goldens.hpp"

namespace weft::mesh {
namespace {

using testing_support::bits;
using testing_support::expect_error;
using testing_support::must;

LayerSpec spec_of(Options options) {
  LayerSpec spec;
  spec.type = "softmax";
  spec.options = std::move(options);
  return spec;
}

std::vector<float> run(const Options& options, std::size_t width, std::size_t rows) {
  goldens::Sequence sequence(spec_of(options), width, 1, rows);
  sequence.forward(0, rows);
  sequence.backward();
  std::vector<float> all = sequence.y;
  all.insert(all.end(), sequence.dx.begin(), sequence.dx.end());
  return all;
}

TEST(Softmax, IsEntmaxOfOneAndSparsemaxIsThatOfTwo) {
  const OptionValue entmax = std::string("entmax"), sparsemax = std::string("sparsemax");
  for (const double temperature : {1.0, 0.7}) {
    const OptionValue t = temperature;
    EXPECT_EQ(bits(run({{"kind", entmax}, {"alpha", 1.0}, {"temperature", t}}, 17, 3)),
              bits(run({{"temperature", t}}, 17, 3)));
    EXPECT_EQ(bits(run({{"kind", entmax}, {"alpha", 2.0}, {"temperature", t}}, 17, 3)),
              bits(run({{"kind", sparsemax}, {"temperature", t}}, 17, 3)));
    EXPECT_NE(bits(run({{"kind", sparsemax}, {"temperature", t}}, 17, 3)), bits(run({{"temperature", t}}, 17, 3)));
  }
}

TEST(Softmax, GivesEachGroupASumOfOneWhateverTheBatch) {
  for (const char* kind : {"standard", "sparsemax", "entmax"})
    // More rows than groups and fewer: the layer walks them differently.
    for (const std::size_t rows : {1, 2, 5}) {
      goldens::Sequence together(spec_of({{"kind", std::string(kind)}, {"groups", 3.0}}), 12, 1, rows);
      goldens::Sequence alone(spec_of({{"kind", std::string(kind)}, {"groups", 3.0}}), 12, 1, rows);
      together.forward(0, rows);
      for (std::size_t b = 0; b < rows; ++b) alone.forward(b, 1);
      EXPECT_EQ(bits(together.y), bits(alone.y)) << kind;
      for (std::size_t part = 0; part < rows * 3; ++part) {
        double sum = 0;
        for (std::size_t j = 0; j < 4; ++j) sum += together.y[part * 4 + j];
        EXPECT_NEAR(sum, 1.0, 3e-7) << kind;
      }
    }
}

TEST(Softmax, RefusesOptionsThatAreWrong) {
  goldens::expect_refused("softmax", {{"temperature", 0.0, Errc::out_of_range, "0 is outside"},
                                      {"temperature", std::string("hot"), Errc::parse_failed, "a number"},
                                      {"kind", std::string("hardmax"), Errc::unknown_name, "standard, sparsemax"},
                                      {"kind", 2.0, Errc::parse_failed, "a text"},
                                      {"groups", 3.0, Errc::out_of_range, "4 values"},
                                      {"groups", 0.0, Errc::out_of_range, "0 is outside"},
                                      {"groups", 1.5, Errc::out_of_range, "1.5"},
                                      {"groups", 8.0, Errc::out_of_range, "4 values"},
                                      {"alpha", 1.5, Errc::unknown_name, "no such option"},
                                      {"temprature", 1.0, Errc::unknown_name, "did you mean 'temperature'"}});
  for (const double alpha : {0.5, -1.0, 1e4, std::nan("")})
    expect_error(make_layer(spec_of({{"kind", std::string("entmax")}, {"alpha", alpha}}), 4, "layers[3]"),
                 Errc::out_of_range, {"layers[3].alpha"});
}

TEST(Softmax, SaysThatABisectionCostsMore) {
  const auto cost = [](Options options) {
    return must(make_layer(spec_of(std::move(options)), 10, "layer"))->multiply_adds();
  };
  EXPECT_LT(cost({}), cost({{"kind", std::string("sparsemax")}}));
  EXPECT_LT(cost({{"kind", std::string("sparsemax")}}), cost({{"kind", std::string("entmax")}, {"alpha", 1.2}}));
}

}  // namespace
}  // namespace weft::mesh
