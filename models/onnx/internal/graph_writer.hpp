// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/mesh.hpp"

#include "formats/onnx/onnx_model.hpp"

#include "core/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::models::onnx {

/// A value of the graph that is written: its name, and the shape of one sample. Before it stands the axis of samples.
struct Written {
  std::string name;
  Shape shape;
};

/// Writes nodes and constants of an ONNX graph, under names that are new.
class GraphWriter {
 public:
  using Attributes = std::vector<std::pair<std::string, formats::OnnxValue>>;

  /// A node of one output. Gives that.
  std::string node(std::string type, std::vector<std::string> inputs, Attributes attributes = {});
  /// A node of several outputs, of which some have no name ("").
  std::vector<std::string> nodes(std::string type, std::vector<std::string> inputs, std::size_t outputs,
                                 Attributes attributes = {});
  std::string number(float value);
  std::string integers(std::vector<std::int64_t> values);
  std::string floats(Shape shape, std::vector<float> values);
  /// A tensor whose values are made when the file is written, once a name. `columns`: of a matrix whose axes the file
  /// has the other way round; 0: none.
  std::string weight(const std::string& name, Shape shape, std::function<std::vector<float>()> values,
                     std::size_t columns = 0);

  /// The same of another type, as its bytes.
  std::string codes(const std::string& name, std::string_view type, Shape shape,
                    std::function<std::vector<std::uint8_t>()> bytes);

  Written reshaped(const Written& value, Shape shape);
  /// y = a op b, of a value and anything that spreads over it.
  Written binary(std::string type, const Written& a, const std::string& b) {
    return {node(std::move(type), {a.name, b}), a.shape};
  }
  Written unary(std::string type, const Written& a, Attributes attributes = {}) {
    return {node(std::move(type), {a.name}, std::move(attributes)), a.shape};
  }
  void input(const std::string& name, std::string_view type, const Shape& shape);
  void output(const std::string& name, const Shape& shape, const std::string& value);

  formats::OnnxGraph& graph() noexcept { return graph_; }

 private:
  std::string fresh(std::string_view hint);
  formats::OnnxGraph graph_;
  std::map<std::string, std::size_t, std::less<>> counts_;
  std::map<std::string, std::string, std::less<>> known_;  // constants by what they hold
};

}  // namespace weft::models::onnx
