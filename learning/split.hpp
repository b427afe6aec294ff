// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/dataset.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace weft::learning {

/// Rows of a file of their own, that are never learned from.
enum class Part : int { validation, test };
/// Puts them behind the rows of `data`: samples to validate with, then samples to test with.
/// @error shape_mismatch: other widths, or labels that the first file's classes do not have
Status append_part(Dataset& data, Dataset part, Part which, const std::string& path);

/// Rows to learn from and rows to measure with. What is drawn is in shuffled order, rows of files of their own in
/// theirs.
struct Split {
  std::vector<std::uint32_t> train, held_out, validation;
};
/// Rows with files of their own are held out, and with a test file nothing else is. Of the others
/// the share `held_out` of all rows, or, of data with one label a sample, of each class of them: then each class gives
/// its share rounded down, and those with the largest remainders one more until the whole is held_out of all rows,
/// rounded.
Split split_rows(const Dataset& data, double held_out, bool is_stratified, std::uint64_t seed);

}  // namespace weft::learning
