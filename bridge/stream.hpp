// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "bridge/request.hpp"
#include "bridge/samples.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace weft::bridge {

/// Distance between two sets of rows of the same shape.
struct Difference {
  double max_abs = 0, mean_abs = 0;
  bool is_exact = true;  ///< every number is equal
};

/// The answer to a request.
struct StreamAnswer {
  std::string entity_path;  ///< absolute
  std::size_t layer_count = 0, weight_bytes = 0, output_dim = 0, sample_count = 0;
  std::size_t sample_width = 0;           ///< numbers of one sample, all inputs together
  std::vector<float> outputs;             ///< [sample_count][output_dim]
  std::optional<Difference> to_native{};  ///< from what the framework itself gave
};

/// The request's samples: its own, those of its fixture, or none. @error as read_inputs and read_fixture
Result<std::optional<GivenSamples>> samples_of(const StreamRequest& request);

/// Makes the network, computes the samples on a mesh and writes its .entity file; what fails writes none.
/// @error as plan_network, fit_samples, Model
/// @thread any; requests at the same path: the last one's file stays
Result<StreamAnswer> stream(const StreamRequest& request, const std::optional<GivenSamples>& samples);

/// The answer as the client reads it: one JSON object, numbers as the shortest text of the same double.
std::string write_answer(const StreamAnswer& answer);
/// {"status": "error", "message"}.
std::string write_error(const std::string& message);
/// Rows of numbers as JSON.
Json rows_of(const std::vector<float>& values, std::size_t width);

}  // namespace weft::bridge
