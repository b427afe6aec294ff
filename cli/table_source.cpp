// SPDX-License-Identifier: Apache-2.0

#include "cli/table_source.hpp"

#include "formats/csv/gzip.hpp"
#include "storage/file_system.hpp"

#include <sys/stat.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
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

Result<bool> is_packed(const TableDescriptor& file, const std::string& path) {
  struct stat about {};
  if (::fstat(file.number(), &about) != 0) return fail(Errc::storage, path + ": " + std::strerror(errno));
  if (S_ISDIR(about.st_mode)) return fail(Errc::storage, path + ": a directory, not a table");
  if (!S_ISREG(about.st_mode)) return false;
  std::array<char, 2> begin{};
  const auto count = ::pread(file.number(), begin.data(), begin.size(), 0);
  return count == 2 && formats::is_gzip(as_bytes({begin.data(), begin.size()}));
}

}  // namespace

Result<TableSource> TableSource::open(const std::string& path, const learning::TableOptions& options) {
  formats::CsvOptions csv;
  csv.header = options.header;
  csv.separator = options.separator;
  const bool is_standard = path == "-";
  const std::string name = is_standard ? "standard input" : path;
  const int number = is_standard ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (number < 0)
    return fail(errno == ENOENT ? Errc::not_found : Errc::storage, path + ": cannot open: " + std::strerror(errno));
  const auto file = std::make_shared<TableDescriptor>(number, !is_standard);
  WEFT_TRY(const bool packed, is_packed(*file, name));
  if (packed && !is_standard) {
    WEFT_TRY(const auto bytes, storage::real_file_system().read(path, kMaxPacked));
    auto text = std::make_shared<std::string>();
    WEFT_TRY(*text, formats::gunzip(bytes, kMaxPacked, path));
    WEFT_TRY(auto table, formats::CsvReader::open(*text, name, csv));
    return TableSource(std::move(table), std::move(text));
  }
  const auto read = [file](std::span<char> buffer) -> Result<std::size_t> {
    for (;;) {
      const auto count = ::read(file->number(), buffer.data(), buffer.size());
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno != EINTR) return fail(Errc::storage, std::string("cannot read: ") + std::strerror(errno));
    }
  };
  WEFT_TRY(auto table, formats::CsvReader::open(read, name, csv));
  return TableSource(std::move(table), nullptr);
}

}  // namespace weft::cli
