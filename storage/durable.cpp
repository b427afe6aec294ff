// SPDX-License-Identifier: Apache-2.0

#include "storage/durable.hpp"

#include "storage/file_system.hpp"

#include "core/state_hash.hpp"

#include <algorithm>
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

/// Files of a set on their way to their places. Older ones are put aside under other names until all is well, so that
/// they can be put back.
class Replacement {
 public:
  /// `temporaries`: the set's new files, one for each.
  Replacement(FileSystem& files, const FileSet& set, const std::vector<std::string>& temporaries)
      : files_(files), set_(set), temporaries_(temporaries), folder_(parent_path(set.made.back().path)) {}

  Status run() {
    Status status = move_all();
    if (!status) {
      if (const Status back = put_back(); !back)
        return fail(status.error().code(), status.error().text() + "; the files before could not be put back: " +
                                               back.error().text() + "; they are beside their places, as *.tmp");
      return status;
    }
    // The new files are complete: of several the old ones go now.
    if (set_.stale_last)
      for (const std::string& path : set_.stale) WEFT_CHECK(remove_if_there(files_, path));
    for (const Aside& each : asides_) WEFT_CHECK(remove_if_there(files_, each.path));
    return files_.sync_directory(folder_);
  }

 private:
  struct Aside {
    std::string place, path;
  };
  const std::string& last() const { return set_.made.back().path; }

  Status move_all() {
    const bool is_alone = set_.made.size() == 1 && (set_.stale.empty() || set_.stale_last);
    if (!is_alone) {
      WEFT_CHECK(put_aside(last()));
      WEFT_CHECK(files_.sync_directory(folder_));
    }
    for (std::size_t i = 0; i + 1 < set_.made.size(); ++i) {
      WEFT_CHECK(put_aside(set_.made[i].path));
      WEFT_CHECK(place(i));
    }
    for (std::size_t i = 0; i < set_.stale.size() && !set_.stale_last; ++i) WEFT_CHECK(put_aside(set_.stale[i]));
    WEFT_CHECK(files_.sync_directory(folder_));
    WEFT_CHECK(place(set_.made.size() - 1));
    return files_.sync_directory(folder_);
  }
  Status put_aside(const std::string& path) {
    asides_.push_back({path, temporary_name(path)});
    Status moved = files_.rename(path, asides_.back().path);
    return moved || moved.error().code() == Errc::not_found ? Status() : moved;
  }
  Status place(std::size_t i) {
    ++placed_;
    Status moved = files_.rename(temporaries_[i], set_.made[i].path);
    return moved ? moved : told_of(set_.made[i].path, temporaries_[i], std::move(moved).error());
  }

  /// The last file goes first and comes back last, as without it no reader takes the others. A call that failed may
  /// have done its work all the same.
  Status put_back() {
    if (asides_.empty()) return {};  // one file, which took its place in one step or did not
    if (placed_ == set_.made.size()) {
      WEFT_CHECK(remove_if_there(files_, last()));
      WEFT_CHECK(files_.sync_directory(folder_));
    }
    for (std::size_t i = 0; i < std::min(placed_, set_.made.size() - 1); ++i)
      WEFT_CHECK(remove_if_there(files_, set_.made[i].path));
    for (std::size_t i = asides_.size(); i-- > 0;) {
      if (i == 0) WEFT_CHECK(files_.sync_directory(folder_));
      const Status moved = files_.rename(asides_[i].path, asides_[i].place);
      if (!moved && moved.error().code() != Errc::not_found) return moved;
    }
    return files_.sync_directory(folder_);
  }

  FileSystem& files_;
  const FileSet& set_;
  const std::vector<std::string>& temporaries_;
  const std::string folder_;
  std::vector<Aside> asides_;  // the last file's first
  std::size_t placed_ = 0;     // new files that were to take their places
};

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
  if (status) status = Replacement(files, set, temporaries).run();
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
