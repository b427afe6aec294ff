// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/internal/graph_writer.hpp"

#include "models/onnx/internal/onnx_constant.hpp"

#include <cstring>
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
std::string GraphWriter::weight(const std::string& name, Shape shape, std::function<std::vector<float>()> values) {
  if (!known_.emplace("w" + name, name).second) return name;
  formats::Tensor tensor{name, "float32", std::move(shape), {}};
  tensor.produce = [values = std::move(values)](const ByteSource::Sink& sink) {
    const std::vector<float> made = values();
    return formats::each_part(std::as_bytes(std::span(made)), sizeof(float), sink);
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
