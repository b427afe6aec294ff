// SPDX-License-Identifier: Apache-2.0

#include "formats/idx/idx_rows.hpp"

#include <array>
#include <charconv>
#include <system_error>
#include <utility>
#include <vector>

namespace weft::formats {

Result<std::vector<std::size_t>> idx_columns(const std::vector<std::string>& named, std::size_t width,
                                             const std::string& path) {
  if (named.size() == 1 && width == 1) return std::vector<std::size_t>{0};
  // Of several the only one that is asked for is not guessed: without a name it would be the last.
  if (named.size() == 1 && (named[0] == "first" || named[0] == "last"))
    return fail(Errc::shape_mismatch, path + ": labels of " + std::to_string(width) +
                                          " values a sample; name one by its number, 1 to " + std::to_string(width) +
                                          ", or several as labels or targets");
  std::vector<std::size_t> columns;
  for (const std::string& name : named) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (name == "first") {
      number = 1;
    } else if (name == "last") {
      number = width;
    } else if (error != std::errc() || end != name.data() + name.size() || number == 0 || number > width) {
      return fail(Errc::unknown_name, path + ": no column '" + name +
                                          "' of labels; they have no names and are "
                                          "numbered, 1 to " +
                                          std::to_string(width));
    }
    columns.push_back(number - 1);
  }
  return columns;
}

Result<std::unique_ptr<IdxRows>> IdxRows::open(IdxFiles files, const std::vector<std::string>& targets) {
  std::unique_ptr<IdxRows> rows(new IdxRows(std::move(files)));
  IdxRows& r = *rows;
  WEFT_TRY(r.samples_, IdxArray::open(as_bytes(r.files_.samples), r.files_.sample_path));
  const std::size_t width = r.samples_->width();
  for (std::size_t i = 0; i < width; ++i) r.names_.push_back("x[" + std::to_string(i) + "]");
  if (!r.files_.labels.empty()) {
    WEFT_TRY(r.labels_, IdxArray::open(as_bytes(r.files_.labels), r.files_.label_path));
    if (r.labels_->rows() != r.samples_->rows())
      return fail(Errc::shape_mismatch, r.files_.label_path + ": " + std::to_string(r.labels_->rows()) + " labels of " +
                                            std::to_string(r.labels_->width()) + " values; " + r.files_.sample_path +
                                            " has " + std::to_string(r.samples_->rows()) + " samples");
    WEFT_TRY(r.columns_of_labels_, idx_columns(targets, r.labels_->width(), r.files_.label_path));
    r.names_.insert(r.names_.end(), targets.begin(), targets.end());
  }
  r.columns_ = r.names_.size();
  return rows;
}

Result<bool> IdxRows::next() {
  if (next_ == samples_->rows()) return false;
  line_ = next_ + 1;
  const std::size_t width = samples_->width();
  texts_.clear();
  std::vector<std::size_t> ends;
  ends.reserve(columns_);
  std::array<char, 32> text;
  const auto put = [&](float value) {
    texts_.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr);
    ends.push_back(texts_.size());
  };
  for (std::size_t i = 0; i < width; ++i) put(samples_->value(next_ * width + i));
  for (const std::size_t column : columns_of_labels_) put(labels_->value(next_ * labels_->width() + column));
  ++next_;
  fields_.clear();
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    fields_.push_back({std::string_view(texts_).substr(begin, end - begin), false});
    begin = end;
  }
  return true;
}

}  // namespace weft::formats
