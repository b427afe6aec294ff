// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "bridge/bedrock.hpp"
#include "bridge/network_plan.hpp"

#include "core/json.hpp"
#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace weft::bridge {

/// Samples as they were given, in double precision: an array for each input, all with as many samples.
struct GivenSamples {
  struct Array {
    std::size_t count = 0;       ///< samples
    Shape shape;                 ///< of one sample
    std::vector<double> values;  ///< [count][shape]
  };
  std::vector<Array> arrays;
};

/// The arrays that a bedrock reads of a `.npz` fixture: x_test; of residual x_main_test and x_skip_test; of mixer
/// x_test and, where it is there, token_ids_test.
/// @error not_found: the file or an array; corrupt, unsupported, too_large (1 GiB an array): naming file and array;
///        shape_mismatch: numbers of samples that differ
Result<GivenSamples> read_fixture(Bedrock bedrock, const std::string& path);

/// Nested lists of numbers, the outermost one of samples; numbers alone are one sample.
/// @error parse_failed: something else; shape_mismatch: lists of different lengths
Result<GivenSamples> read_inputs(const Json& inputs);

/// Rows of float32 for the ports of a network.
struct FittedSamples {
  std::size_t count = 0;
  std::vector<std::vector<float>> ports;  ///< [count][width] each, in the order of the plan's ports
};

/// Cuts each sample to what the network reads: the first so many of each axis. What an axis lacks is zeros, but of the
/// last one it is an error. A sample of another number of axes must have exactly as many values. One array for several
/// ports holds their values one behind the other; missing ones are zeros. Token ids are truncated toward zero, and
/// those outside the table become its entry of zeros.
/// @error shape_mismatch: naming row, found and wanted; not_finite: a value that is none, or that float32 does not hold
Result<FittedSamples> fit_samples(const GivenSamples& given, const NetworkPlan& plan);

}  // namespace weft::bridge
