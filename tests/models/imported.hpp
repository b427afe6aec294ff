// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/import.hpp"

#include "mesh/mesh.hpp"
#include "mesh/persistence/mesh_load.hpp"

#include "storage/file_system.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "tests/support/shared_data.hpp"
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace weft::models {

/// Ids and logits that another program computed in binary64.
struct Golden {
  std::vector<float> ids;
  std::vector<std::vector<double>> logits;
};

inline Golden read_golden(const std::string& path) {
  const auto bytes = storage::real_file_system().read(path, std::size_t{1} << 24);
  const Json json = *parse_json(as_text(*bytes), path);
  Golden golden{json["ids"].get<std::vector<float>>(), {}};
  for (const Json& row : json["logits"]) golden.logits.push_back(row.get<std::vector<double>>());
  return golden;
}

/// The mesh of a model's files, or a failure of the test.
inline Result<mesh::Mesh> imported_mesh(const std::string& path, const ImportOptions& options) {
  WEFT_TRY(const ImportedModel model, import_model(storage::real_file_system(), path, options));
  WEFT_TRY(const ByteBuffer bytes, collect(model.content));
  return mesh::load_mesh(bytes, path);
}

inline std::vector<float> logits_of(const mesh::Mesh& mesh, const std::vector<float>& ids, std::size_t vocabulary) {
  std::vector<float> logits(ids.size() * vocabulary);
  const mesh::RunInput input{"tokens", ids};
  const mesh::RunOutput output{"logits", logits};
  const Status ran = mesh.forward({&input, 1}, 1, {&output, 1});
  EXPECT_TRUE(ran) << ran.error().text();
  return logits;
}

/// The largest difference, in parts of the largest logit.
inline double largest_error(const std::vector<float>& logits, const std::vector<std::vector<double>>& golden) {
  double error = 0, largest = 0;
  for (std::size_t t = 0; t < golden.size(); ++t)
    for (std::size_t v = 0; v < golden[t].size(); ++v) {
      error = std::max(error, std::abs(static_cast<double>(logits[t * golden[t].size() + v]) - golden[t][v]));
      largest = std::max(largest, std::abs(golden[t][v]));
    }
  return error / largest;
}

}  // namespace weft::models
