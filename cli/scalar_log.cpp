// SPDX-License-Identifier: Apache-2.0

#include "cli/scalar_log.hpp"

#include "formats/tensorboard/event_record.hpp"
#include "storage/durable.hpp"

#include "core/bytes.hpp"
#include "core/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>

namespace weft::cli {
namespace {

constexpr std::size_t kLongestTable = std::size_t{1} << 30;
constexpr const char* kTable = "/scalars.csv";

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string shortest(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

/// The first number of the table's last whole line.
std::optional<std::uint64_t> last_step(std::string_view table) {
  const std::size_t end = table.find_last_of('\n');
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  const std::size_t begin = table.find_last_of('\n', end - 1);
  if (begin == std::string_view::npos) return std::nullopt;  // the heading alone
  std::uint64_t step = 0;
  const auto [until, error] = std::from_chars(table.data() + begin + 1, table.data() + end, step);
  return error == std::errc() && *until == ',' ? std::optional(step) : std::nullopt;
}

std::string heading_of(const std::string& step, const std::vector<std::string>& tags) {
  std::string heading = step;
  for (const std::string& tag : tags) heading += "," + tag;
  return heading + "\n";
}

/// Takes lines after step `until` out of a table, and half a line at its end.
Status cut_table(storage::FileSystem& files, const std::string& path, std::uint64_t until) {
  const auto before = files.read(path, kLongestTable);
  if (!before) return before.error().code() == Errc::not_found ? Status() : fail(before.error());
  const std::string_view table = as_text(*before);
  std::string kept;
  for (std::size_t at = 0, end = 0; (end = table.find('\n', at)) != table.npos; at = end + 1) {
    const std::string_view line = table.substr(at, end + 1 - at);
    std::uint64_t step = 0;
    const auto read = std::from_chars(line.data(), line.data() + line.size(), step);
    if (at == 0 || (read.ec == std::errc() && step <= until)) kept += line;
  }
  return kept == table ? Status() : storage::write_file_durably(files, path, as_bytes(kept));
}

/// The table to be gone on with; a new one begins with its heading.
Result<std::unique_ptr<storage::File>> open_table(storage::FileSystem& files, const std::string& path,
                                                  const std::string& heading, std::optional<std::uint64_t>& step) {
  const auto before = files.read(path, kLongestTable);
  if (!before && before.error().code() != Errc::not_found) return fail(before.error());
  const bool is_new = !before || before->size() == 0;
  if (!is_new) step = last_step(as_text(*before));
  if (!is_new && !as_text(*before).starts_with(heading))
    return fail(Errc::invalid_argument,
                path + ": has other columns than this run's; give --logdir a directory of its own, or move the table");
  WEFT_TRY(auto file, files.open(path, storage::OpenMode::append));
  if (is_new) WEFT_CHECK(file->write(as_bytes(heading)));
  // A process that was killed may have left half a line.
  if (!is_new && !as_text(*before).ends_with('\n')) WEFT_CHECK(file->write(as_bytes("\n")));
  return file;
}

}  // namespace

Status ScalarLog::check_unused(storage::FileSystem& files, const std::string& directory, const std::string& step,
                               std::uint64_t begin) {
  const std::string path = directory + kTable;
  const auto before = files.read(path, kLongestTable);
  if (!before) return before.error().code() == Errc::not_found ? Status() : fail(before.error());
  if (!as_text(*before).starts_with(step + ",")) return {};  // of another kind: `open` says so
  const auto last = last_step(as_text(*before));
  if (!last || *last <= begin) return {};
  return fail(Errc::invalid_argument,
              path + ": ends at " + step + " " + std::to_string(*last) + " of another run, and this one begins at " +
                  std::to_string(begin) +
                  "; give --logdir another directory, or --state with that run's data directory to go on with it");
}

Result<ScalarLog> ScalarLog::open_kept(storage::FileSystem& files, const std::string& directory,
                                       const std::string& step, std::vector<std::string> tags, std::uint64_t until) {
  ScalarLog made;
  made.files_ = &files;
  made.directory_ = directory;
  made.tags_ = std::move(tags);
  WEFT_CHECK(cut_table(files, directory + kTable, until));
  WEFT_TRY(made.table_, open_table(files, directory + kTable, heading_of(step, made.tags_), made.found_step_));
  return made;
}

Result<ScalarLog> ScalarLog::open(storage::FileSystem& files, const std::string& directory, const std::string& step,
                                  std::vector<std::string> tags) {
  const std::string heading = heading_of(step, tags);
  WEFT_CHECK(files.make_directory(directory));
  ScalarLog made;
  made.files_ = &files;
  made.directory_ = directory;
  made.tags_ = std::move(tags);
  WEFT_TRY(made.table_, open_table(files, directory + kTable, heading, made.found_step_));
  const double begin = now();
  const std::string name = "events.out.tfevents." + std::to_string(static_cast<std::uint64_t>(begin)) + "." +
                           std::to_string(::getpid()) + ".weft";
  WEFT_TRY(made.events_, files.open(directory + "/" + name, storage::OpenMode::append));
  WEFT_CHECK(made.events_->write(as_bytes(formats::event_version_record(begin))));
  return made;
}

std::vector<std::uint64_t> ScalarLog::steps_of(std::string_view tag) const {
  std::vector<std::uint64_t> steps;
  const auto column = static_cast<std::size_t>(std::find(tags_.begin(), tags_.end(), tag) - tags_.begin()) + 1;
  const auto table = files_->read(directory_ + kTable, kLongestTable);
  if (!table) return steps;
  const std::string_view text = as_text(*table);
  for (std::size_t at = text.find('\n'); at != text.npos && at + 1 < text.size();) {
    const std::size_t begin = at + 1;
    at = text.find('\n', begin);
    const std::string_view line = text.substr(begin, at == text.npos ? at : at - begin);
    std::size_t field = 0;
    for (std::size_t i = 0; i < column && field != line.npos; ++i) field = line.find(',', field + (i > 0));
    if (field == line.npos || field + 1 >= line.size() || line[field + 1] == ',') continue;
    std::uint64_t step = 0;
    if (std::from_chars(line.data(), line.data() + line.size(), step).ec == std::errc()) steps.push_back(step);
  }
  return steps;
}

void ScalarLog::add(std::uint64_t step, std::span<const std::optional<double>> values) {
  if (!table_) return;
  if (const Status written = write(step, values); !written) {
    log_error((events_ ? "--logdir " + directory_ : directory_ + kTable) + ": " + written.error().text() +
              "; no more of this run is logged there");
    events_.reset();
    table_.reset();
  }
}

Status ScalarLog::write(std::uint64_t step, std::span<const std::optional<double>> values) {
  std::vector<formats::TaggedScalar> scalars;
  std::string line = std::to_string(step);
  for (std::size_t i = 0; i < tags_.size(); ++i) {
    line += ',';
    if (!values[i] || !std::isfinite(*values[i])) continue;
    line += shortest(*values[i]);
    scalars.push_back({tags_[i], static_cast<float>(*values[i])});
  }
  line += '\n';
  WEFT_CHECK(table_->write(as_bytes(line)));
  if (!events_) return {};
  return events_->write(as_bytes(formats::event_scalars_record(now(), static_cast<std::int64_t>(step), scalars)));
}

}  // namespace weft::cli
