// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/measurement.hpp"

#include "core/json.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace weft::cli {

/// Figures of each class and the confusion matrix as tables, for a page of `columns` (0: no bound): the matrix where it
/// fits, else the most frequent mistakes; of more than 20 classes those with the lowest F1. Ends with a line break.
/// `names`: of the classes; empty: their numbers.
std::string class_report(const learning::Measurement& measurement, const std::vector<std::string>& names,
                         std::size_t columns, bool unicode);

/// The same as JSON: samples, accuracy, loss, classes with their figures, and the matrix where there is one.
Json measurement_json(const learning::Measurement& measurement, const std::vector<std::string>& names);

/// "0.0812".
std::string loss_text(double loss);

}  // namespace weft::cli
