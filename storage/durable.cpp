// SPDX-License-Identifier: Apache-2.0

#include "storage/durable.hpp"

#include "storage/file_system.hpp"

#include "core/state_hash.hpp"

#include <random>
#include <utility>
#include <vector>

namespace weft::storage {
namespace {

/// A name that no other process or container sharing the directory picks too. It never reaches a result.
std::string temporary_name(const std::string& path) {
  std::random_device random;
  const std::uint32_t words[] = {random(), random(), random(), random()};
  return path + "." + to_string(hash_bytes(words, sizeof words)).substr(0, 16) + ".tmp";
}

/// A failure at the temporary file, told of the file that the caller named: nobody else knows the other name.
Failure told_of(const std::string& path, const std::string& temporary, Error error) {
  std::string text = error.text();
  for (std::size_t at; (at = text.find(temporary)) != text.npos;) text.replace(at, temporary.size(), path);
  return fail(Error(error.code(), std::move(text), error.file(), error.line()));
}

Status remove_if_there(FileSystem& files, const std::string& path) {
  Status removed = files.remove(path);
  return removed || removed.error().code() == Errc::not_found ? Status() : removed;
}

/// Puts the files of a set, written as `temporaries`, in their places.
Status move_set(FileSystem& files, const FileSet& set, const std::vector<std::string>& temporaries) {
  const std::string& last = set.made.back().path;
  const std::string folder = parent_path(last);
  const auto move = [&](std::size_t i) -> Status {
    Status moved = files.rename(temporaries[i], set.made[i].path);
    return moved ? moved : told_of(set.made[i].path, temporaries[i], std::move(moved).error());
  };
  const auto remove_stale = [&]() -> Status {
    for (const std::string& path : set.stale) WEFT_CHECK(remove_if_there(files, path));
    return files.sync_directory(folder);
  };
  if (set.made.size() > 1) {
    WEFT_CHECK(remove_if_there(files, last));
    WEFT_CHECK(files.sync_directory(folder));
  }
  for (std::size_t i = 0; i + 1 < set.made.size(); ++i) WEFT_CHECK(move(i));
  if (!set.stale_last) WEFT_CHECK(remove_stale());
  WEFT_CHECK(files.sync_directory(folder));
  WEFT_CHECK(move(set.made.size() - 1));
  WEFT_CHECK(files.sync_directory(folder));
  return set.stale_last ? remove_stale() : Status();
}

/// Gathers small parts, so that a file of many takes few system calls.
class Gathered {
 public:
  explicit Gathered(File& file) : file_(file) {}

  Status write(ByteSpan part) {
    if (part.size() > kCapacity - held_.size()) WEFT_CHECK(flush());
    if (part.size() >= kCapacity) return file_.write(part);
    held_.insert(held_.end(), part.begin(), part.end());
    return {};
  }
  Status flush() {
    const Status status = held_.empty() ? Status() : file_.write(held_);
    held_.clear();
    return status;
  }

 private:
  static constexpr std::size_t kCapacity = std::size_t{1} << 20;
  File& file_;
  std::vector<std::byte> held_;  // grows with a file, so that a small one costs little
};

}  // namespace

Status write_new_file(FileSystem& files, const std::string& path, const ByteSource& content) {
  WEFT_TRY(const auto file, files.open(path, OpenMode::create_new));
  Gathered gathered(*file);
  WEFT_CHECK(content.produce([&](ByteSpan part) { return gathered.write(part); }));
  WEFT_CHECK(gathered.flush());
  WEFT_CHECK(file->sync());
  return file->close();
}

Status write_file_durably(FileSystem& files, const std::string& path, const ByteSource& content) {
  const std::string temporary = temporary_name(path);
  Status status = write_new_file(files, temporary, content);
  if (status) status = files.rename(temporary, path);
  if (!status) {
    (void)files.remove(temporary);  // may not exist; the first failure is the one to tell
    return told_of(path, temporary, std::move(status).error());
  }
  return files.sync_directory(parent_path(path));
}

Status replace_files_durably(FileSystem& files, const FileSet& set) {
  std::vector<std::string> all = set.stale, temporaries;
  for (const FileSet::NewFile& file : set.made) all.push_back(file.path);
  for (const std::string& path : all)
    if (files.list(path))
      return fail(Errc::storage, path + ": is a directory, where a file must be; move it, or give another place");
  Status status;
  for (std::size_t i = 0; i < set.made.size() && status; ++i) {
    const FileSet::NewFile& file = set.made[i];
    temporaries.push_back(temporary_name(file.path));
    status = write_new_file(files, temporaries[i], file.content);
    if (!status) status = told_of(file.path, temporaries[i], std::move(status).error());
  }
  if (status) status = move_set(files, set, temporaries);
  if (!status)
    for (const std::string& temporary : temporaries) (void)files.remove(temporary);  // those that were not moved
  return status;
}

Status prove_writable(FileSystem& files, const std::string& path) {
  const std::string temporary = temporary_name(path);
  auto file = files.open(temporary, OpenMode::create_new);
  if (!file) return told_of(path, temporary, std::move(file).error());
  Status closed = (*file)->close();
  if (Status removed = files.remove(temporary); closed && !removed) closed = std::move(removed);
  return closed ? closed : told_of(path, temporary, std::move(closed).error());
}

}  // namespace weft::storage
