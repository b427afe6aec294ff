// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/persistence/foreign_weights.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace weft::models {

/// Weights of a model's files that were not finite, and became so where the importer was told to allow them: a NaN
/// became 0, an infinity the largest float32 number of its sign, as torch.nan_to_num has it.
class NonfiniteWeights {
 public:
  /// Replaces what is not finite. Rows that come again count once.
  void replace(const mesh::ParameterRows& rows);
  bool empty() const noexcept { return counts_.empty(); }
  /// The count, and the first of them: its parameter, its index and its value. @pre not empty
  std::string note() const;

 private:
  using Place = std::pair<std::string, std::size_t>;  // of rows: parameter, the first one's number
  std::map<Place, std::size_t> counts_;
  std::string first_;
};

/// Values as `read` gives them, finite ones in the place of others. `replaced` null: `read` itself.
mesh::ReadParameter with_finite_values(mesh::ReadParameter read, std::shared_ptr<NonfiniteWeights> replaced);

}  // namespace weft::models
