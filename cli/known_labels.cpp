// SPDX-License-Identifier: Apache-2.0

#include "cli/known_labels.hpp"

#include "learning/learner.hpp"

#include "formats/csv/csv.hpp"

namespace weft::cli {

KnownLabels::KnownLabels(const std::vector<std::vector<std::string>>& names) {
  for (const auto& classes : names) {
    auto& numbers = numbers_.emplace_back();
    for (std::uint32_t i = 0; i < classes.size(); ++i) numbers.emplace(learning::canonical_label(classes[i]).text, i);
  }
}

Status KnownLabels::take(const learning::SampleReader& samples, std::vector<std::uint32_t>& to) const {
  for (std::size_t part = 0; part < numbers_.size(); ++part) {
    const std::string_view label = samples.label(part);
    const auto found = numbers_[part].find(learning::canonical_label(label).text);
    if (found == numbers_[part].end() && !label.empty())
      return samples.table().refuse(Errc::out_of_range, "label " + formats::csv_excerpt({label}) +
                                                            " is none of the model's " +
                                                            std::to_string(numbers_[part].size()) + " classes");
    to.push_back(label.empty() ? learning::kNoLabel : found->second);
  }
  return {};
}

}  // namespace weft::cli
