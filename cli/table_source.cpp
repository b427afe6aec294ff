// SPDX-License-Identifier: Apache-2.0

#include "cli/table_source.hpp"

#include "learning/dataset.hpp"

#include "formats/csv/gzip.hpp"
#include "formats/idx/idx_rows.hpp"
#include "storage/file_system.hpp"

#include <sys/stat.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

namespace weft::cli {
namespace {

constexpr std::size_t kMaxPacked = std::size_t{1} << 30;

/// An open file, closed with its last owner.
class TableDescriptor {
 public:
  TableDescriptor(int number, bool is_owned) : number_(number), is_owned_(is_owned) {}
  ~TableDescriptor() {
    if (is_owned_) ::close(number_);
  }
  TableDescriptor(const TableDescriptor&) = delete;
  TableDescriptor& operator=(const TableDescriptor&) = delete;
  int number() const noexcept { return number_; }

 private:
  int number_;
  bool is_owned_;
};

/// The whole of a regular file that begins so is needed at once.
struct Beginning {
  bool is_packed = false, is_idx = false;
};
Result<Beginning> beginning_of(const TableDescriptor& file, const std::string& path) {
  struct stat about {};
  if (::fstat(file.number(), &about) != 0) return fail(Errc::storage, path + ": " + std::strerror(errno));
  if (S_ISDIR(about.st_mode)) return fail(Errc::storage, path + ": a directory, not a table");
  if (!S_ISREG(about.st_mode)) return Beginning{};
  std::array<char, 4> begin{};
  const auto count = ::pread(file.number(), begin.data(), begin.size(), 0);
  const auto bytes = as_bytes({begin.data(), count > 0 ? static_cast<std::size_t>(count) : 0});
  return Beginning{formats::is_gzip(bytes), formats::is_idx(bytes)};
}

Result<std::string> unpacked(const std::string& path) {
  WEFT_TRY(const auto bytes, storage::real_file_system().read(path, kMaxPacked));
  if (formats::is_gzip(bytes)) return formats::gunzip(bytes, kMaxPacked, path);
  return std::string(as_text(bytes));
}

Result<std::unique_ptr<formats::RowReader>> open_idx(std::string samples, const std::string& path,
                                                     const learning::TableOptions& options, bool needs_labels) {
  const auto targets = learning::target_columns(options);
  formats::IdxFiles files{.samples = std::move(samples), .labels = {}, .sample_path = path};
  const auto beside = learning::label_file(path);
  if (!beside && needs_labels)
    return fail(Errc::not_found, path +
                                     ": an IDX file of samples has \"images\" in its name, where that of its labels "
                                     "has \"labels\"");
  if (beside) {
    auto labels = unpacked(*beside);
    if (!labels && (needs_labels || labels.error().code() != Errc::not_found))
      return fail(labels.error().code(), *beside + ": the labels of " + path + ": " + labels.error().text());
    if (labels) files.labels = *std::move(labels), files.label_path = *beside;
  }
  WEFT_TRY(auto rows, formats::IdxRows::open(std::move(files), targets));
  return std::unique_ptr<formats::RowReader>(std::move(rows));
}

}  // namespace

Result<std::unique_ptr<formats::RowReader>> open_table(const std::string& path, const learning::TableOptions& options,
                                                       const TableExpected& expected) {
  const bool is_standard = path == "-";
  const std::string name = is_standard ? "standard input" : path;
  const int number = is_standard ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (number < 0)
    return fail(errno == ENOENT ? Errc::not_found : Errc::storage, path + ": cannot open: " + std::strerror(errno));
  const auto file = std::make_shared<TableDescriptor>(number, !is_standard);
  WEFT_TRY(const Beginning begin, beginning_of(*file, name));
  if ((begin.is_packed || begin.is_idx) && !is_standard) {
    WEFT_TRY(std::string text, unpacked(path));
    if (formats::is_idx(as_bytes(text))) return open_idx(std::move(text), path, options, expected.needs_labels);
    const auto read = [text = std::move(text),
                       at = std::size_t{0}](std::span<char> buffer) mutable -> Result<std::size_t> {
      const std::size_t now = std::min(buffer.size(), text.size() - at);
      std::copy_n(text.data() + at, now, buffer.data());
      at += now;
      return now;
    };
    return learning::open_rows(read, name, options, expected.rows);
  }
  const auto read = [file, wait = expected.wait](std::span<char> buffer) -> Result<std::size_t> {
    for (;;) {
      if (wait) WEFT_CHECK(wait(file->number()));
      const auto count = ::read(file->number(), buffer.data(), buffer.size());
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno != EINTR && errno != EAGAIN)
        return fail(Errc::storage, std::string("cannot read: ") + std::strerror(errno));
    }
  };
  return learning::open_rows(read, name, options, expected.rows);
}

}  // namespace weft::cli
