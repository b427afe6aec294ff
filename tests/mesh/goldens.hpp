// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"
#include "mesh/network/network_json.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"
#include "kernels/linear.hpp"

#include "core/aligned_buffer.hpp"
#include "core/json.hpp"

#include "testing.hpp"
#include "tests/support/source_path.hpp"
#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>

/// Sequences of ticks through one layer, and what PyTorch makes of the same (tools/make_layer_goldens.py).
namespace weft::mesh::goldens {

/// Streams of `draw`.
inline constexpr std::uint32_t kX = 1, kState = 2, kDy = 3, kDnext = 4, kParameters = 10;

/// Numbers in [-scale, scale), a function of the stream and the place alone: the script's `draw`.
inline std::vector<float> draw(std::uint32_t stream, std::size_t n, float scale = 1.0f) {
  std::vector<float> values(n);
  for (std::size_t k = 0; k < n; ++k) {
    std::uint32_t u = static_cast<std::uint32_t>(k) * 2654435761u + stream * 2246822519u + 12345u;
    u = (u ^ (u >> 15)) * 0x2c1b3c6du;
    u = (u ^ (u >> 12)) * 0x297a2d39u;
    u ^= u >> 15;
    values[k] = (static_cast<float>(u >> 8) / 8388608.0f - 1.0f) * scale;
  }
  return values;
}

struct Golden {
  LayerSpec spec;
  Shape in;  // a number in the file is a vector's width
  std::size_t out = 0, ticks = 0, rows = 0;
  std::vector<double> y, dx, state, dstate;
  std::vector<std::vector<double>> gradients;
};

/// A layer of a network file, without its place and its sources.
inline LayerSpec layer_of(Json layer) {
  layer["at"] = {0, 0, 0, 0};
  const Json network{{"weft", 2}, {"grid", {{"x", 1}}}, {"layers", {std::move(layer)}}};
  return testing_support::must(read_network(network.dump(), "golden")).layers[0];
}

inline std::vector<Golden> read(const std::string& type) {
  const std::string path = source_path("tests/data/layers/") + type + ".json";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::vector<Golden> goldens;
  const auto json = testing_support::must(parse_json(text.str(), path));
  for (const auto& row : json) {
    Golden golden;
    golden.in = row["in"].is_number() ? Shape{row["in"].get<std::size_t>()} : row["in"].get<Shape>();
    golden.out = row["out"], golden.ticks = row["ticks"], golden.rows = row["rows"];
    golden.spec.type = type;
    golden.spec.out = golden.out;
    for (const auto& [key, value] : row["options"].members()) {
      if (value.is_bool()) golden.spec.options[key] = value.get<bool>();
      if (value.is_number()) golden.spec.options[key] = value.get<double>();
      if (value.is_string()) golden.spec.options[key] = value.get<std::string>();
      if (value.is_array()) golden.spec.options[key] = value.get<std::vector<double>>();
    }
    if (row.contains("layer")) golden.spec = layer_of(row["layer"]);
    golden.y = row["y"].get<std::vector<double>>();
    golden.dx = row["dx"].get<std::vector<double>>();
    golden.gradients = row["gradients"].get<std::vector<std::vector<double>>>();
    if (row.contains("state")) golden.state = row["state"].get<std::vector<double>>();
    if (row.contains("dstate")) golden.dstate = row["dstate"].get<std::vector<double>>();
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

/// A layer over `ticks` ticks and back through all of them, rows of a tick together or one at a time.
class Sequence {
 public:
  Sequence(const LayerSpec& spec, std::size_t in, std::size_t ticks, std::size_t rows)
      : Sequence(spec, Shape{in}, ticks, rows) {}
  Sequence(const LayerSpec& spec, const Shape& in, std::size_t ticks, std::size_t rows)
      : layer(testing_support::must(make_layer(spec, in, "layer"))), ticks_(ticks), rows_(rows) {
    x = draw(kX, ticks * rows * layer->in());
    state = draw(kState, rows * layer->state_size());
    state.resize((ticks + 1) * rows * layer->state_size());
    dy = draw(kDy, ticks * rows * layer->out());
    dstate = draw(kDnext, rows * layer->state_size());
    y.resize(ticks * rows * layer->out());
    dx.resize(x.size());
    if (layer->needs_preactivation()) z_.resize(y.size());
    cache_.resize(ticks * rows * layer->cache_size());
    scratch_.resize(rows * layer->scratch_size());
    workspace_ = AlignedBuffer<float>(layer->workspace_size());
    for (std::size_t i = 0; i < layer->parameters().size(); ++i) {
      const ParameterSpec& p = layer->parameters()[i];
      const auto values =
          draw(kParameters + static_cast<std::uint32_t>(i), p.out * std::max<std::size_t>(p.in, 1), 0.5f);
      buffers_.emplace_back(p.stored_size());
      sums_.emplace_back(p.stored_size());
      if (p.is_matrix())
        kernels::pack_panels({values.data(), p.out, p.in, p.in}, {buffers_.back().data(), p.out, p.in});
      else
        std::copy(values.begin(), values.end(), buffers_.back().begin());
      weights_.emplace_back(kernels::ConstPanels{buffers_.back().data(), p.out, p.in});
      pointers_.push_back(sums_.back().data());
    }
  }

  /// Rows [first, first + count) of every tick.
  void forward(std::size_t first, std::size_t count) {
    const kernels::FlushSubnormals exact;
    for (std::size_t t = 0; t < ticks_; ++t)
      layer->forward(stream_, {{weights_.data()},
                               view(x, layer->in(), t, first, count),
                               preactivations(t, first, count),
                               view(y, layer->out(), t, first, count),
                               view(cache_, layer->cache_size(), t, first, count),
                               view(state, layer->state_size(), t, first, count),
                               view(state, layer->state_size(), t + 1, first, count),
                               workspace_.data(),
                               std::min(training_rows, count)});
  }
  /// From the last tick to the first; dstate ends as that of the state before the first tick.
  void backward() {
    const kernels::FlushSubnormals exact;
    std::vector<float> from = dstate, errors = dy;
    for (std::size_t t = ticks_; t-- > 0;) {
      BackwardArgs args;
      args.weights = {weights_.data()};
      args.x = view(x, layer->in(), t, 0, rows_);
      args.z = preactivations(t, 0, rows_);
      args.y = view(y, layer->out(), t, 0, rows_);
      args.cache = view(cache_, layer->cache_size(), t, 0, rows_);
      args.state = view(state, layer->state_size(), t, 0, rows_);
      args.dy = view(errors, layer->out(), t, 0, rows_);
      args.gradients = {pointers_.data()};
      args.dx = view(dx, layer->in(), t, 0, rows_);
      args.dnext_state = view(from, layer->state_size(), 0, 0, rows_);
      args.dstate = view(dstate, layer->state_size(), 0, 0, rows_);
      args.workspace = workspace_.data();
      args.scratch = view(scratch_, layer->scratch_size(), 0, 0, rows_);
      layer->backward(stream_, args);
      from = dstate;
    }
  }
  std::vector<float> last_state() const {
    return {state.end() - static_cast<std::ptrdiff_t>(rows_ * layer->state_size()), state.end()};
  }
  std::vector<float> gradient(std::size_t i) const {
    const ParameterSpec& p = layer->parameters()[i];
    std::vector<float> values(p.out * std::max<std::size_t>(p.in, 1));
    if (p.is_matrix())
      kernels::unpack_panels({sums_[i].data(), p.out, p.in}, {values.data(), p.out, p.in, p.in});
    else
      std::copy_n(sums_[i].begin(), values.size(), values.begin());
    return values;
  }

  /// Other values, row-major, than `draw` gave.
  void set_parameter(std::size_t i, const std::vector<float>& values) {
    const ParameterSpec& p = layer->parameters()[i];
    if (p.is_matrix())
      kernels::pack_panels({values.data(), p.out, p.in, p.in}, {buffers_[i].data(), p.out, p.in});
    else
      std::copy(values.begin(), values.end(), buffers_[i].begin());
  }

  std::unique_ptr<Layer> layer;
  std::vector<float> x, y, state, dy, dx, dstate;  // [ticks][rows][width]; state one tick more
  std::size_t training_rows = 0;                   // of each call of forward

 private:
  kernels::MatrixView view(std::vector<float>& values, std::size_t width, std::size_t tick, std::size_t first,
                           std::size_t count) const {
    if (width == 0) return {};
    return {values.data() + (tick * rows_ + first) * width, count, width, width};
  }

  kernels::MatrixView preactivations(std::size_t tick, std::size_t first, std::size_t count) {
    return view(z_, z_.empty() ? 0 : layer->out(), tick, first, count);
  }

  std::size_t ticks_, rows_;
  std::vector<float> z_, cache_, scratch_;
  AlignedBuffer<float> workspace_;
  std::vector<AlignedBuffer<float>> buffers_, sums_;
  std::vector<kernels::ConstWeight> weights_;
  std::vector<float*> pointers_;
  kernels::CpuStream stream_;
};

/// 1e-5 of the largest value there is: sums cancel, so an element alone is no measure.
inline void expect_equal(const std::vector<float>& got, const std::vector<double>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double scale = 0;
  for (const double v : want) scale = std::max(scale, std::fabs(v));
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5 * scale) << what << ", element " << i;
}

inline void expect_as_pytorch(const Golden& golden) {
  std::string label = golden.spec.type + " " + weft::to_string(golden.in) + " to " + std::to_string(golden.out) + ", " +
                      std::to_string(golden.ticks) + " ticks of " + std::to_string(golden.rows) + " rows:";
  for (const auto& option : golden.spec.options) label += " " + option.first;
  SCOPED_TRACE(label);
  Sequence run(golden.spec, golden.in, golden.ticks, golden.rows);
  run.forward(0, golden.rows);
  expect_equal(run.y, golden.y, "y");
  expect_equal(run.last_state(), golden.state, "state");
  run.backward();
  expect_equal(run.dx, golden.dx, "dx");
  expect_equal(run.dstate, golden.dstate, "dstate");
  ASSERT_EQ(run.layer->parameters().size(), golden.gradients.size());
  for (std::size_t i = 0; i < golden.gradients.size(); ++i)
    expect_equal(run.gradient(i), golden.gradients[i], run.layer->parameters()[i].name);

  Sequence alone(golden.spec, golden.in, golden.ticks, golden.rows);
  for (std::size_t b = golden.rows; b-- > 0;) alone.forward(b, 1);
  EXPECT_EQ(testing_support::bits(alone.y), testing_support::bits(run.y)) << "rows one at a time";
  EXPECT_EQ(testing_support::bits(alone.state), testing_support::bits(run.state)) << "rows one at a time";
}

/// An option that a layer must refuse, and parts of the error's text.
struct Refusal {
  std::string key;
  OptionValue value;
  Errc code;
  std::string fragment;
};

inline void expect_refused(const std::string& type, const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    LayerSpec spec;
    spec.type = type;
    spec.options = {{refusal.key, refusal.value}};
    SCOPED_TRACE(type + "." + refusal.key);
    testing_support::expect_error(make_layer(spec, 4, "layers[3]"), refusal.code,
                                  {"layers[3]." + refusal.key, refusal.fragment});
  }
}

}  // namespace weft::mesh::goldens
