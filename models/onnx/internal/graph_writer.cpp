// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/internal/graph_writer.hpp"

#include "models/onnx/internal/onnx_constant.hpp"

#include <cstring>
#include <span>
#include <utility>

namespace weft::models::onnx {
namespace {

template <class Number>
formats::Tensor owning_tensor(std::string name, std::string type, Shape shape, std::vector<Number> values) {
  formats::Tensor tensor{std::move(name), std::move(type), std::move(shape), {}};
  tensor.produce = [values = std::move(values)](const ByteSource::Sink& sink) {
    return formats::each_part(std::as_bytes(std::span(values)), sizeof(Number), sink);
  };
  return tensor;
}

Status write_floats(std::span<const float> values, const ByteSource::Sink& sink) {
  return formats::each_part(std::as_bytes(values), sizeof(float), sink);
}
/// Columns one after the other, without a second matrix.
Status write_columns(const std::vector<float>& values, std::size_t columns, const ByteSource::Sink& sink) {
  const std::size_t rows = values.size() / columns;
  std::vector<float> column(rows);
  for (std::size_t k = 0; k < columns; ++k) {
    for (std::size_t o = 0; o < rows; ++o) column[o] = values[o * columns + k];
    WEFT_CHECK(write_floats(column, sink));
  }
  return {};
}

std::vector<formats::OnnxAxis> axes_of(const Shape& shape) {
  std::vector<formats::OnnxAxis> axes{{std::nullopt, "samples"}};
  for (const std::size_t extent : shape) axes.push_back({static_cast<std::int64_t>(extent), ""});
  return axes;
}

}  // namespace

std::string GraphWriter::fresh(std::string_view hint) {
  const std::size_t count = counts_[std::string(hint)]++;
  return std::string(hint) + "_" + std::to_string(count);
}

std::vector<std::string> GraphWriter::nodes(std::string type, std::vector<std::string> inputs, std::size_t outputs,
                                            Attributes attributes) {
  formats::OnnxNode made;
  made.name = fresh(type);
  made.inputs = std::move(inputs);
  for (std::size_t i = 0; i < outputs; ++i) made.outputs.push_back(made.name + ":" + std::to_string(i));
  made.attributes = std::move(attributes);
  made.type = std::move(type);
  graph_.nodes.push_back(std::move(made));
  return graph_.nodes.back().outputs;
}
std::string GraphWriter::node(std::string type, std::vector<std::string> inputs, Attributes attributes) {
  return nodes(std::move(type), std::move(inputs), 1, std::move(attributes))[0];
}

std::string GraphWriter::number(float value) { return floats({}, {value}); }

std::string GraphWriter::floats(Shape shape, std::vector<float> values) {
  std::string key = "f" + to_string(shape);
  key.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  const auto [at, is_new] = known_.emplace(std::move(key), "");
  if (is_new) {
    at->second = fresh("constant");
    graph_.initializers.push_back(owning_tensor(at->second, "float32", std::move(shape), std::move(values)));
  }
  return at->second;
}
std::string GraphWriter::integers(std::vector<std::int64_t> values) {
  std::string key = "i";
  key.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int64_t));
  const auto [at, is_new] = known_.emplace(std::move(key), "");
  if (is_new) {
    at->second = fresh("constant");
    const Shape shape{values.size()};
    graph_.initializers.push_back(owning_tensor(at->second, "int64", shape, std::move(values)));
  }
  return at->second;
}
std::string GraphWriter::weight(const std::string& name, Shape shape, std::function<std::vector<float>()> values,
                                std::size_t columns) {
  if (!known_.emplace("w" + name, name).second) return name;
  formats::Tensor tensor{name, "float32", std::move(shape), {}};
  tensor.produce = [values = std::move(values), columns](const ByteSource::Sink& sink) {
    const std::vector<float> made = values();
    return columns == 0 ? write_floats(made, sink) : write_columns(made, columns, sink);
  };
  graph_.initializers.push_back(std::move(tensor));
  return name;
}

std::string GraphWriter::codes(const std::string& name, std::string_view type, Shape shape,
                               std::function<std::vector<std::uint8_t>()> bytes) {
  formats::Tensor tensor{name, std::string(type), std::move(shape), {}};
  tensor.produce = [bytes = std::move(bytes)](const ByteSource::Sink& sink) {
    const std::vector<std::uint8_t> made = bytes();
    return formats::each_part(std::as_bytes(std::span(made)), 1, sink);
  };
  graph_.initializers.push_back(std::move(tensor));
  return name;
}

Written GraphWriter::reshaped(const Written& value, Shape shape) {
  if (value.shape == shape) return value;
  std::vector<std::int64_t> wanted{-1};
  for (const std::size_t extent : shape) wanted.push_back(static_cast<std::int64_t>(extent));
  return {node("Reshape", {value.name, integers(std::move(wanted))}), std::move(shape)};
}

void GraphWriter::input(const std::string& name, std::string_view type, const Shape& shape) {
  graph_.inputs.push_back({name, std::string(type), axes_of(shape)});
}
void GraphWriter::output(const std::string& name, const Shape& shape, const std::string& value) {
  formats::OnnxNode same;
  same.type = "Identity";
  same.name = "output." + name;
  same.inputs = {value};
  same.outputs = {name};
  graph_.nodes.push_back(std::move(same));
  graph_.outputs.push_back({name, "float32", axes_of(shape)});
}

}  // namespace weft::models::onnx
