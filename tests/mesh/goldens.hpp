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

/// A layer as JSON has it.
inline LayerSpec layer(const std::string& json) { return layer_of(testing_support::must(parse_json(json, "layer"))); }

inline LayerSpec layer(std::string type, Options options, std::size_t out = 0) {
  LayerSpec spec;
  spec.type = std::move(type);
  spec.out = out;
  spec.options = std::move(options);
  return spec;
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

/// Rows that stand apart between values that no layer may touch. What is written goes to where it was taken from.
class Apart {
 public:
  Apart(std::vector<float>& values, std::size_t width, std::size_t first_row, std::size_t rows)
      : values_(values), width_(width), first_(first_row * width), stride_((width + 15) / 16 * 16 + 16) {
    if (width == 0 || values.empty()) return;
    rows_ = rows;
    data_ = AlignedBuffer<float>(rows * stride_);
    std::fill(data_.begin(), data_.end(), kGap);
    for (std::size_t b = 0; b < rows; ++b)
      std::copy_n(values.data() + first_ + b * width, width, data_.data() + b * stride_);
  }
  ~Apart() {
    for (std::size_t i = 0; i < data_.size(); ++i)
      if (i % stride_ < width_)
        values_[first_ + i / stride_ * width_ + i % stride_] = data_[i];
      else if (data_[i] != kGap)
        ADD_FAILURE() << "written beside row " << i / stride_;
  }
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;
  kernels::MatrixView view() {
    return rows_ ? kernels::MatrixView{data_.data(), rows_, width_, stride_} : kernels::MatrixView{};
  }

 private:
  static constexpr float kGap = 7654321.0f;
  std::vector<float>& values_;
  std::size_t width_, first_, stride_, rows_ = 0;
  AlignedBuffer<float> data_;
};

/// A layer over `ticks` ticks and back through all of them, rows of a tick together or one at a time.
class Sequence {
 public:
  Sequence(const LayerSpec& spec, std::size_t in, std::size_t ticks, std::size_t rows)
      : Sequence(spec, Shape{in}, ticks, rows) {}
  Sequence(const LayerSpec& spec, const Shape& in, std::size_t ticks, std::size_t rows, LayerContext context = {})
      : layer(testing_support::must(make_layer(spec, in, "layer", std::move(context)))), ticks_(ticks), rows_(rows) {
    x = draw(kX, ticks * rows * layer->in());
    state = draw(kState, rows * layer->state_size());
    state.resize((ticks + 1) * rows * layer->state_size());
    dy = draw(kDy, ticks * rows * layer->out());
    dstate = draw(kDnext, rows * layer->state_size());
    y.resize(ticks * rows * layer->out());
    dx.resize(x.size());
    if (layer->needs_preactivation()) z.resize(y.size());
    cache.resize(ticks * rows * layer->cache_size());
    scratch_.resize(rows * layer->scratch_size());
    workspace_ = AlignedBuffer<float>(layer->workspace_size());
    for (std::size_t i = 0; i < layer->parameters().size(); ++i) {
      const ParameterSpec& p = layer->parameters()[i];
      buffers_.emplace_back(p.stored_size());
      sums_.emplace_back(p.stored_size());
      set_parameter(i, draw(kParameters + static_cast<std::uint32_t>(i), values_of(p), 0.5f));
      weights_.emplace_back(kernels::ConstPanels{buffers_.back().data(), p.out, p.in});
      pointers_.push_back(sums_.back().data());
    }
  }

  /// Rows [first, first + count) of every tick.
  void forward(std::size_t first, std::size_t count) {
    const kernels::FlushSubnormals exact;
    const std::size_t n = layer->state_size();
    for (std::size_t t = 0; t < ticks_; ++t) {
      const std::size_t row = t * rows_ + first;
      Apart in(x, layer->in(), row, count), before(z, layer->out(), row, count), out(y, layer->out(), row, count);
      Apart kept(cache, layer->cache_size(), row, count), from(state, n, row, count), to(state, n, row + rows_, count);
      layer->forward(stream_, {{weights_.data()},
                               in.view(),
                               before.view(),
                               out.view(),
                               kept.view(),
                               from.view(),
                               to.view(),
                               workspace_.data(),
                               std::min(training_rows, count),
                               std::min(samples_of(t) - std::min(samples_of(t), first), count)});
    }
  }
  /// From the last tick to the first; dstate ends as that of the state before the first tick.
  void backward(bool wants_dx = true, bool wants_gradients = true) {
    const kernels::FlushSubnormals exact;
    const std::size_t n = layer->state_size();
    std::vector<float> next = dstate, errors = dy;
    for (std::size_t t = ticks_; t-- > 0; next = dstate) {
      const std::size_t row = t * rows_;
      Apart in(x, layer->in(), row, rows_), before(z, layer->out(), row, rows_), out(y, layer->out(), row, rows_);
      Apart kept(cache, layer->cache_size(), row, rows_), from(state, n, row, rows_), to(dx, layer->in(), row, rows_);
      Apart down(errors, layer->out(), row, rows_), above(next, n, 0, rows_), below(dstate, n, 0, rows_);
      Apart scratch(scratch_, layer->scratch_size(), 0, rows_);
      BackwardArgs args;
      args.weights = {weights_.data()};
      args.x = in.view(), args.z = before.view(), args.y = out.view(), args.cache = kept.view();
      args.state = from.view(), args.dy = down.view();
      if (wants_gradients) args.gradients = {pointers_.data()};
      if (wants_dx) args.dx = to.view();
      args.dnext_state = above.view(), args.dstate = below.view();
      args.workspace = workspace_.data();
      args.scratch = scratch.view();
      layer->backward(stream_, args);
    }
  }
  std::vector<float> last_state() const {
    return {state.end() - static_cast<std::ptrdiff_t>(rows_ * layer->state_size()), state.end()};
  }
  std::vector<float> gradient(std::size_t i) const { return row_major(i, sums_[i]); }
  std::vector<float> parameter(std::size_t i) const { return row_major(i, buffers_[i]); }
  /// Other values, row-major, than `draw` gave; and what gradients begin with.
  void set_parameter(std::size_t i, const std::vector<float>& values) { store(i, values, buffers_[i]); }
  void set_gradient(std::size_t i, const std::vector<float>& values) { store(i, values, sums_[i]); }
  /// Computes with a weight in another form.
  void set_weight(std::size_t i, const kernels::ConstWeight& weight) { weights_[i] = weight; }
  static std::size_t values_of(const ParameterSpec& p) { return p.out * std::max<std::size_t>(p.in, 1); }

  std::unique_ptr<Layer> layer;
  std::vector<float> x, y, state, dy, dx, dstate, z, cache;  // [ticks][rows][width]; state one tick more
  std::size_t training_rows = 0, sample_rows = 0;            // of each call of forward
  std::vector<std::size_t> sample_rows_of_tick;              // in the place of sample_rows

 private:
  std::size_t samples_of(std::size_t tick) const {
    return sample_rows_of_tick.empty() ? sample_rows : sample_rows_of_tick[tick];
  }
  void store(std::size_t i, const std::vector<float>& values, AlignedBuffer<float>& into) const {
    const ParameterSpec& p = layer->parameters()[i];
    if (p.is_matrix())
      kernels::pack_panels({values.data(), p.out, p.in, p.in}, {into.data(), p.out, p.in});
    else
      std::copy(values.begin(), values.end(), into.begin());
  }
  std::vector<float> row_major(std::size_t i, const AlignedBuffer<float>& from) const {
    const ParameterSpec& p = layer->parameters()[i];
    std::vector<float> values(values_of(p));
    if (p.is_matrix())
      kernels::unpack_panels({from.data(), p.out, p.in}, {values.data(), p.out, p.in, p.in});
    else
      std::copy_n(from.begin(), values.size(), values.begin());
    return values;
  }

  std::size_t ticks_, rows_;
  std::vector<float> scratch_;
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

}  // namespace weft::mesh::goldens
