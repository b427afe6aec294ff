// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/tensor_file.hpp"

#include "core/bytes.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace weft::formats {

/// A type of elements of ONNX: Weft's dtype, or the format's own name where Weft has no word for it ("BOOL", "STRING").
struct OnnxType {
  std::int32_t number = 0;
  std::string_view name;
  unsigned bits = 0;  // of an element; 0: it has no fixed size
};
/// Null: not known.
const OnnxType* find_onnx_type(std::int64_t number) noexcept;
const OnnxType* find_onnx_type(std::string_view name) noexcept;

struct OnnxGraph;

/// Value of a node's attribute.
using OnnxValue = std::variant<float, std::int64_t, std::string, Tensor, std::shared_ptr<const OnnxGraph>,
                               std::vector<float>, std::vector<std::int64_t>, std::vector<std::string>>;

/// An operator and what it reads and writes, by name. An input of no name is one that is not given.
struct OnnxNode {
  std::string type, domain, name;
  std::vector<std::string> inputs, outputs;
  std::vector<std::pair<std::string, OnnxValue>> attributes;

  const OnnxValue* find(std::string_view attribute) const noexcept;
};

/// An axis of a shape: a number, or a name that stands for one; neither: not known.
struct OnnxAxis {
  std::optional<std::int64_t> extent = std::nullopt;
  std::string name{};
};
/// Input or output of a graph.
struct OnnxPort {
  std::string name, type;                       // type: as OnnxType::name, or a number; empty: not said
  std::optional<std::vector<OnnxAxis>> axes{};  // none: not said
};

struct OnnxGraph {
  std::string name;
  std::vector<OnnxNode> nodes;
  std::vector<Tensor> initializers;
  std::vector<OnnxPort> inputs, outputs;
};

/// Content of an `.onnx` file. Bytes of tensors lie in the file that was read, or wherever their maker has them.
struct OnnxModel {
  std::int64_t ir_version = 8;
  std::string producer;
  std::map<std::string, std::int64_t, std::less<>> opsets;  // versions by domain; "": ONNX's own operators
  std::vector<std::pair<std::string, std::string>> metadata;
  OnnxGraph graph;
};

}  // namespace weft::formats
