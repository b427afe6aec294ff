// SPDX-License-Identifier: Apache-2.0

#include "learning/split.hpp"

#include "learning/internal/shuffle.hpp"

#include "core/philox.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace weft::learning {
namespace {

// A place no grid reaches, so that it shares no random numbers with weights.
constexpr std::uint64_t kSplitPlace = std::uint64_t{1} << 35;

/// Rows of each class that are held out.
std::vector<std::size_t> class_shares(const Dataset& data, std::size_t rows, double held_out, std::size_t total) {
  const std::size_t classes = data.classes_of(0).count;
  std::vector<std::size_t> sizes(classes, 0), shares(classes, 0);
  for (std::size_t i = 0; i < rows; ++i) ++sizes[data.labels[i]];
  std::vector<std::pair<double, std::uint32_t>> remainders;
  std::size_t given = 0;
  for (std::uint32_t c = 0; c < classes; ++c) {
    const double wanted = held_out * static_cast<double>(sizes[c]);
    shares[c] = static_cast<std::size_t>(wanted);
    given += shares[c];
    // The last row of a class is learned from.
    if (shares[c] + 1 < sizes[c]) remainders.emplace_back(static_cast<double>(shares[c]) - wanted, c);
  }
  std::sort(remainders.begin(), remainders.end());
  for (const auto& [remainder, c] : remainders) {
    if (given >= total) break;
    ++shares[c];
    ++given;
  }
  return shares;
}

}  // namespace

Status append_part(Dataset& data, Dataset part, Part which, const std::string& path) {
  const auto refuse = [&](const std::string& what, std::size_t found, std::size_t wanted) {
    return fail(Errc::shape_mismatch, path + ": " + std::to_string(found) + " " + what +
                                          "; the samples to learn from have " + std::to_string(wanted));
  };
  if (part.features != data.features) return refuse("values a sample", part.features, data.features);
  if (part.targets != data.targets || part.has_values() != data.has_values())
    return refuse("labels or targets a sample", part.targets, data.targets);
  if (part.heads.size() != data.heads.size()) return refuse("heads", part.heads.size(), data.heads.size());
  data.inputs.insert(data.inputs.end(), part.inputs.begin(), part.inputs.end());
  data.labels.insert(data.labels.end(), part.labels.begin(), part.labels.end());
  data.values.insert(data.values.end(), part.values.begin(), part.values.end());
  data.weights.insert(data.weights.end(), part.weights.begin(), part.weights.end());
  data.classes = std::max(data.classes, part.classes);
  for (std::size_t i = 0; i < data.heads.size(); ++i)
    data.heads[i].count = std::max(data.heads[i].count, part.heads[i].count);
  (which == Part::test ? data.tested : data.validated) = part.size;
  data.size += part.size;
  data.files.insert(data.files.end(), part.files.begin(), part.files.end());
  data.dropped += part.dropped;
  data.missing += part.missing;
  return {};
}

Split split_rows(const Dataset& data, double held_out, bool is_stratified, std::uint64_t seed) {
  Split split;
  const auto own = static_cast<std::uint32_t>(data.size - data.validated - data.tested);
  const auto tested = static_cast<std::uint32_t>(data.size - data.tested);
  for (std::uint32_t row = own; row < tested; ++row) split.validation.push_back(row);
  for (std::uint32_t row = tested; row < data.size; ++row) split.held_out.push_back(row);
  std::vector<std::uint32_t> rows(own);
  std::iota(rows.begin(), rows.end(), 0u);
  shuffle(rows, RandomStream(seed, kSplitPlace, RandomPurpose::shuffle));
  if (data.tested > 0) {
    split.train = std::move(rows);
    return split;
  }
  const auto total = static_cast<std::size_t>(std::llround(held_out * static_cast<double>(own)));
  if (!is_stratified || data.targets != 1 || data.has_values()) {
    split.held_out.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(total));
    split.train.assign(rows.begin() + static_cast<std::ptrdiff_t>(total), rows.end());
    return split;
  }
  std::vector<std::size_t> shares = class_shares(data, own, held_out, total);
  for (const std::uint32_t row : rows) {
    std::size_t& share = shares[data.labels[row]];
    (share > 0 ? split.held_out : split.train).push_back(row);
    if (share > 0) --share;
  }
  return split;
}

}  // namespace weft::learning
