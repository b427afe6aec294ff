// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/dataset.hpp"
#include "learning/stream_options.hpp"

#include "mesh/network/graph.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::cli {

/// The table that a network learns from, read as its section "stream" says.
struct Samples {
  learning::Dataset data;
  std::string digest;              // of the files to learn from
  std::size_t learned = 0;         // rows that are learned from
  std::vector<std::string> notes;  // what its owner should know, a line each
};

/// Compares inputs with the range that a network takes them in: where layers read them as they are, a root mean square
/// of at most 8; behind a layer `standardize`, at most 20 of its standard deviations from its mean.
class RangeCheck {
 public:
  /// `input`: name of the input; empty: the only one.
  RangeCheck(const mesh::Graph& graph, const std::string& input);
  /// Text of a note on [rows][features] that are far outside; nothing for others.
  std::optional<std::string> note(std::span<const float> values) const;

 private:
  struct Standardized {
    std::vector<double> mean, deviation;
  };
  static std::optional<std::string> raw_note(std::span<const float> values);
  static std::optional<std::string> standardized_note(const Standardized& layer, std::span<const float> values);

  std::vector<Standardized> standardized_;
  bool is_raw_ = false;  // a layer reads the input as it is
};

/// Epochs that small tables are learned in: those that make some 30,000 updates, 5 to 200.
std::uint64_t usual_epochs(std::size_t rows);

/// Writes the names of classes that a table has into the options that keep them.
void keep_class_names(const learning::Dataset& data, learning::TableOptions& table);

/// Files of a stream, as they are found from here.
struct SamplePaths {
  std::string csv, validation, test;  // the two last: empty, none
};

/// The same without rows to learn from, which arrive while the run goes on: widths, classes that the network or the run
/// knows, and the files to measure with.
Result<Samples> expect_samples(const mesh::Graph& graph, learning::StreamOptions& stream, const SamplePaths& paths);

/// Reads the tables at `paths`, and writes into `stream` what it left open: names of the classes, and what stands for
/// missing values. `is_trained`: the network has weights that know its classes.
Result<Samples> read_samples(const mesh::Graph& graph, learning::StreamOptions& stream, const SamplePaths& paths,
                             bool is_trained);

}  // namespace weft::cli
