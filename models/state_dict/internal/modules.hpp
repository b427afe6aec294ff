// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/config_reader.hpp"

#include "mesh/network/network.hpp"

#include "formats/tensor_file.hpp"

#include "core/shape.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weft::models::state_dict {

/// Place of a parameter's values.
struct Values {
  std::string tensor;
  std::size_t first_row = 0;   // of the tensor's rows
  bool is_transposed = false;  // the parameter's rows are the tensor's columns
};

/// A norm over batches whose numbers are fixed: y = (x - mean) gain / sqrt(variance + epsilon) + bias.
struct BatchNorm {
  std::string mean, variance, gain, bias;  // tensors; gain, bias empty: 1 and 0
};

/// Some tensors that are one layer.
struct Module {
  std::string name;       // what their names have in common, "features.0"
  std::string type = "";  // of the layer; "batch_norm": folded into the one before
  mesh::Options options{};
  std::size_t in = 0, out = 0;  // features or channels, of a norm both
  std::size_t group_in = 0;     // channels of a group of a convolution
  Shape kernel{};               // of a convolution
  std::map<std::string, Values> parameters{};
  std::vector<std::string> tensors{};
  BatchNorm batch_norm{};
};

/// The modules of a file, by name, numbers in their order; what fits none is a problem.
std::vector<Module> modules_of(const formats::TensorFile& file, std::size_t heads, Problems& problems);

/// Parts of a name between dots, underscores and the borders of digits; those that are numbers count as such.
std::vector<std::string> name_parts(const std::string& name);
/// Less than 0, 0 or more: names part by part. `is_numeric`: whether the first parts that differ are numbers.
int compare_names(const std::string& a, const std::string& b, bool* is_numeric = nullptr);

/// Of two numbers that follow the same name, whether others stand between them; nothing: they are none.
std::optional<bool> gap_between(const std::string& a, const std::string& b);

/// Orders of modules in which each takes what the one before gives and numbers ascend: two at most.
/// @return their indices; empty: there is none
std::vector<std::vector<std::size_t>> orders_of(const std::vector<Module>& modules);

}  // namespace weft::models::state_dict
