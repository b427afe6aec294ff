// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "bridge/bedrock.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace weft::bridge {

/// A request for one bedrock: the payload, and where files are.
struct StreamRequest {
  Bedrock bedrock = Bedrock::dense;
  Json payload;                    ///< an object
  std::optional<Json> inputs;      ///< samples of the request's own
  std::string models_directory;    ///< of `<planet>/<model_id>/<model_id>.stream.entity`
  std::string fixtures_directory;  ///< of `<fixture_version>.npz`
  std::string fixture_version;     ///< empty: none
  std::string output_path;         ///< of the .entity file; empty: below models_directory
  bool skips_inference = false;    ///< writes the file alone

  const std::string& planet() const { return payload["planet"].text(); }
  const std::string& model() const { return payload["model_id"].text(); }
};

/// Values of the program's flags, each for what the document leaves out; empty: not given.
struct StreamFlags {
  std::string bedrock, root, models_directory, fixtures_directory, fixture_version, output_path;
  bool skips_inference = false;
};

/// Limits of one document: `max_bytes` of JSON, 64 deep.
JsonLimits request_limits(std::size_t max_bytes);
inline constexpr std::size_t kMostPipeBytes = std::size_t{256} << 20;
inline constexpr std::size_t kMostHttpBytes = std::size_t{64} << 20;

/// Reads the document that the program gets: {"bedrock", "root", "models_dir", "fixtures_dir", "fixture_version",
/// "output_path", "inputs", "skip_infer", "payload"}, or a payload alone. Keys that are not known are left alone.
/// @error parse_failed: no JSON, a field of another kind; unknown_name: no such bedrock; invalid_argument: no place for
///        the file, or names that cannot be part of a path; too_large
Result<StreamRequest> read_request(std::string_view document, const StreamFlags& flags = {});

/// Makes a request of a payload that came over HTTP for `bedrock`: what it says of files is left alone.
/// @error invalid_argument: names that cannot be part of a path
Result<StreamRequest> request_of(Bedrock bedrock, Json payload, const std::string& bedrock_directory);

/// Absolute path of the request's .entity file.
std::string entity_path_of(const StreamRequest& request);

}  // namespace weft::bridge
