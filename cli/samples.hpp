// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/dataset.hpp"
#include "learning/stream_options.hpp"

#include "mesh/network/graph.hpp"

#include <string>
#include <vector>

namespace weft::cli {

/// The table that a network learns from, read as its section "stream" says.
struct Samples {
  learning::Dataset data;
  std::vector<std::string> notes;  // what its owner should know, a line each
};

/// Reads the table at `path`, and writes into `stream` what it left open: names of the classes, and what stands for
/// missing values. `is_trained`: the network has weights that know its classes.
Result<Samples> read_samples(const mesh::Graph& graph, learning::StreamOptions& stream, const std::string& path,
                             bool is_trained);

}  // namespace weft::cli
