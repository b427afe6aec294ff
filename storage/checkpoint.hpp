// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/fwd.hpp"
#include "storage/mapped_file.hpp"

#include "core/byte_source.hpp"
#include "core/json.hpp"
#include "core/result.hpp"
#include "core/size_limit.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::storage {

/// A file of a checkpoint. Names: 1 to 128 of [A-Za-z0-9._-], no dot in front, not "manifest.json".
struct NamedBytes {
  std::string name;
  ByteSource bytes;
};

/// Place of a checkpoint in time, and its name: `ckpt-<tick>`, or `ckpt-<tick>-<record>` where a journal goes with it,
/// because two may be of one tick.
struct CheckpointKey {
  std::uint64_t tick = 0;
  std::uint64_t record = 0;  ///< last record of the journal in it; 0: none
  auto operator<=>(const CheckpointKey&) const = default;
};
/// "tick 7", or "tick 7, record 3".
std::string to_string(const CheckpointKey& key);

/// A checkpoint whose every byte was read and found as its manifest says.
struct Checkpoint {
  CheckpointKey key;
  std::string path;                  ///< its directory
  std::shared_ptr<const Json> info;  ///< what the writer gave
  std::vector<std::pair<std::string, MappedFile>> files;
  std::vector<std::string> skipped;  ///< newer ones that did not verify, and why

  /// @error not_found
  Result<MappedFile> file(std::string_view name) const;
};

struct CheckpointOptions {
  std::size_t keep = 2;  ///< verified checkpoints kept, at least 1
  std::size_t max_file_bytes = size_limit(40);
};

/// A new directory of checkpoints must hold no other files. Leftovers of a creation that was interrupted, logs and a
/// file system's lost+found may be there; checkpoints of other programs (no manifest.json) may not.
/// @error invalid_argument: names the first file
Status check_unoccupied(FileSystem& files, const std::string& directory);

/// A directory of checkpoints that a crash at any moment leaves resumable (docs/formats/checkpoint.md). One process at
/// a time: the directory is locked while this exists.
/// @thread one at a time
class CheckpointStore {
 public:
  /// Makes the directory when it is missing (its parent must be there), locks it and clears what a crash left behind.
  /// `files` must outlive the store.
  /// @error storage: in use by another process, or unreadable; not_found: no parent directory; invalid_argument: other
  ///        files are there (`check_unoccupied`), which are left as they are
  static Result<CheckpointStore> open(FileSystem& files, std::string directory, CheckpointOptions options = {});

  /// To read beside the process that owns the directory: takes no lock and changes nothing; `write` and `clear` are
  /// refused. What is listed is looked up anew by each call that reads.
  /// @error not_found: no such directory; storage
  static Result<CheckpointStore> look(FileSystem& files, std::string directory, CheckpointOptions options = {});

  /// Writes a checkpoint beside its name, syncs each file, manifest last, renames it into place, syncs the parent, then
  /// reads it all back; only then are older ones pruned. After a failure the earlier ones are untouched, and nothing
  /// is tried again on a descriptor whose sync failed.
  /// Writing one that is already there with the same content succeeds and does nothing.
  /// @error invalid_argument: a bad name, or a checkpoint that is not newer than the newest one that verifies;
  ///        storage; corrupt: what was read back differs
  Status write(CheckpointKey key, const std::vector<NamedBytes>& files, const Json& info);

  /// The newest checkpoint that verifies, or nothing when there is none at all. Each newer one that does not verify is
  /// logged and listed in `skipped`.
  /// @error corrupt: there are checkpoints and none verifies
  Result<std::optional<Checkpoint>> latest();

  /// @error not_found: there is none; corrupt, storage: it does not verify
  Result<Checkpoint> at(CheckpointKey key);

  /// Checkpoints present, oldest first, verified or not.
  std::vector<CheckpointKey> keys() const;
  /// Removes the checkpoints after `key`, which nobody is to go on from.
  Status discard_after(CheckpointKey key);
  /// Removes every checkpoint, oldest first, so that a new run can use the directory.
  Status clear();

  const std::string& directory() const noexcept { return directory_; }

 private:
  struct Entry {
    CheckpointKey key;
    std::optional<bool> is_good;  // unknown until it was read in this process
  };
  CheckpointStore(FileSystem& files, std::string directory, CheckpointOptions options);
  std::string path_of(CheckpointKey key) const;
  /// Takes the directory's checkpoints for entries; returns the other names in it.
  Result<std::vector<std::string>> list_entries();
  void add_entry(CheckpointKey key);
  Status may_change() const;
  Result<std::optional<Checkpoint>> newest_that_verifies();
  Entry& entry_of(CheckpointKey key);
  bool is_good(Entry& entry);
  /// True when the very same checkpoint is there already. Refuses to write behind a newer good one.
  Result<bool> make_room(CheckpointKey key, const std::string& manifest);
  /// Writes all files of a checkpoint and returns the manifest's text.
  Result<std::string> write_new(const std::string& path, CheckpointKey key, const std::vector<NamedBytes>& files,
                                const Json& info);
  /// Reads and checks all of it; with `manifest`, that text must be the one stored.
  Result<Checkpoint> read(CheckpointKey key, const std::string* manifest);
  Status verify(CheckpointKey key, const std::string* manifest);
  void prune();
  /// False for a directory that has the name of a checkpoint and is another program's.
  bool is_ours(const std::string& path) const;
  Status discard(CheckpointKey key);
  Status remove_tree(const std::string& path);

  FileSystem* files_;
  std::string directory_;
  CheckpointOptions options_;
  std::unique_ptr<FileLock> lock_;  // none: only looking
  std::vector<Entry> entries_;      // oldest first
  std::set<std::string> names_;     // of the files last written
};

}  // namespace weft::storage
