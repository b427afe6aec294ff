// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"
#include "server/http_message.hpp"
#include "server/served_mesh.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::server {

/// Appends numbers as JSON: the shortest digits that read back as the same float32. What is not finite becomes null.
void append_number(std::string& text, float value);
/// "[1,2]", or with more than one row "[[1,2],[3,4]]" where `nested`.
void append_rows(std::string& text, std::span<const float> values, std::size_t rows, bool nested);

/// The numbers of a JSON array, or of an array of arrays, in order. @error parse_failed: something else; not_finite
Result<std::vector<float>> read_numbers(const Json& json, const std::string& path);

/// Little-endian float32 as they stand in a body. @error parse_failed: not whole numbers of 4 bytes
Result<std::vector<float>> read_raw(std::string_view bytes);
std::string raw_of(std::span<const float> values);
/// "2,64": rows and width. @error parse_failed
Result<std::vector<std::uint64_t>> read_shape(std::string_view text);

/// A request for `forward`: a JSON body {"inputs":{port:[[...]]},"outputs":[...]}, or raw float32 of the only input
/// (X-Weft-Shape: rows,width). The answer is of the kind that Accept names.
/// @error parse_failed, unknown_name, shape_mismatch, not_finite: naming the port
Result<ForwardRequest> read_forward(const HttpRequest& request, const MeshDescription& of);

/// Samples of a request for `learn`, as a learner takes them.
struct LearnBatch {
  struct Port {
    std::string name;
    std::vector<float> values;
  };
  struct Goal {
    std::string output;
    std::vector<std::uint32_t> labels;
    std::vector<float> values, gradient, weights;
  };
  std::uint64_t samples = 0;
  std::vector<Port> inputs;
  std::vector<Goal> targets;

  /// Both point into this.
  std::vector<mesh::RunInput> run_inputs() const;
  std::vector<learning::Target> run_targets() const;
};
/// [{"inputs":{port:[...]},"targets":{output: label | [values]}}, ...]; all samples name the same ports and outputs.
/// A mesh with several sessions takes [[...],...] and [label,...], one for each. @error parse_failed, unknown_name
Result<LearnBatch> read_samples(const Json& samples, const MeshDescription& of);
/// {port:[...]} of one sample. @error parse_failed, unknown_name
Status read_inputs(const Json& inputs, const std::string& path, const MeshDescription& of, LearnBatch& to);
/// {output: label | [values] | {"labels":[],"values":[],"gradient":[],"weights":[]}}. @error as read_samples
Status read_targets(const Json& targets, const std::string& path, const MeshDescription& of, LearnBatch& to);

}  // namespace weft::server
