// SPDX-License-Identifier: Apache-2.0

#include "storage/checkpoint.hpp"

#include "storage/durable.hpp"
#include "storage/file_system.hpp"
#include "storage/internal/manifest.hpp"

#include "core/json.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"
#include "core/state_hash.hpp"

#include <algorithm>
#include <charconv>
#include <set>

namespace weft::storage {
namespace {

constexpr std::string_view kCheckpointPrefix = "ckpt-";
constexpr std::string_view kTemporary = ".tmp";
constexpr std::string_view kManifest = "manifest.json";
constexpr std::string_view kLock = "lock";
constexpr std::size_t kMaxFiles = 65536;

std::string name_of(CheckpointKey key) {
  std::string name = std::string(kCheckpointPrefix) + std::to_string(key.tick);
  if (key.record) name += "-" + std::to_string(key.record);
  return name;
}

/// The key in a directory's name, spelled as we spell it.
std::optional<CheckpointKey> parse_name(std::string_view name) {
  if (name.substr(0, kCheckpointPrefix.size()) != kCheckpointPrefix) return std::nullopt;
  CheckpointKey key;
  const char* const end = name.data() + name.size();
  const auto tick = std::from_chars(name.data() + kCheckpointPrefix.size(), end, key.tick);
  if (tick.ptr != end) std::from_chars(tick.ptr + 1, end, key.record);
  if (name_of(key) != name) return std::nullopt;
  return key;
}

/// True for the name of a checkpoint that is being written or removed.
bool is_temporary(std::string_view name) {
  return name.ends_with(kTemporary) && parse_name(name.substr(0, name.size() - kTemporary.size()));
}

/// True for a directory that can be a checkpoint, damaged or not: its manifest was there before it had its name.
bool has_manifest(FileSystem& files, const std::string& path) {
  const auto names = files.list(path);
  return names && std::ranges::find(*names, kManifest) != names->end();
}

Status check_names(const std::vector<NamedBytes>& files) {
  if (files.size() > kMaxFiles)
    return fail(Errc::invalid_argument,
                "checkpoint: " + std::to_string(files.size()) + " files, at most " + std::to_string(kMaxFiles));
  std::set<std::string_view> names;
  for (const NamedBytes& file : files) {
    if (!is_file_name(file.name))
      return fail(Errc::invalid_argument, "checkpoint: " + in_quotes(file.name) + " cannot name a file");
    if (!names.insert(file.name).second)
      return fail(Errc::invalid_argument, "checkpoint: file " + in_quotes(file.name) + " is given twice");
  }
  return {};
}

/// A source, and the digest of what it produced last.
class Digested {
 public:
  explicit Digested(const NamedBytes& file) : file_(file) {}

  ByteSource source() {
    return {file_.bytes.size(), [this](const ByteSource::Sink& sink) {
              hasher_.reset();
              return file_.bytes.produce([&](ByteSpan part) {
                hasher_.add_bytes(part.data(), part.size());
                return sink(part);
              });
            }};
  }
  ManifestFile row() const { return {file_.name, file_.bytes.size(), hasher_.digest()}; }

 private:
  const NamedBytes& file_;
  StateHasher hasher_;
};

/// The manifest of a checkpoint that is not written.
Result<std::string> manifest_of(CheckpointKey key, const std::vector<NamedBytes>& files, const Json& info) {
  std::vector<ManifestFile> rows;
  for (const NamedBytes& file : files) {
    Digested digested(file);
    WEFT_CHECK(digested.source().produce([](ByteSpan) -> Status { return {}; }));
    rows.push_back(digested.row());
  }
  return encode_manifest(key, rows, info);
}

/// Digest of a file's bytes; the memory of a mapped file's pages is given back as it goes on.
Result<Hash128> digest_of(const MappedFile& file) {
  constexpr std::size_t kAtOnce = std::size_t{4} << 20;
  StateHasher hasher;
  const ByteSpan bytes = file.bytes();
  for (std::size_t at = 0; at < bytes.size(); at += kAtOnce) {
    const ByteSpan part = bytes.subspan(at, std::min(kAtOnce, bytes.size() - at));
    hasher.add_bytes(part.data(), part.size());
    file.forget(part);
  }
  WEFT_CHECK(file.intact());
  return hasher.digest();
}

}  // namespace

std::string to_string(const CheckpointKey& key) {
  return "tick " + std::to_string(key.tick) + (key.record ? ", record " + std::to_string(key.record) : std::string());
}

Result<MappedFile> Checkpoint::file(std::string_view name) const {
  for (const auto& [file_name, file] : files)
    if (file_name == name) return file;
  return fail(Errc::not_found, path + ": has no file " + in_quotes(name));
}

Status check_unoccupied(FileSystem& files, const std::string& directory) {
  const auto names = files.list(directory);
  if (!names) return {};  // not there yet, or opening it will say why not
  const bool has_lock = std::ranges::find(*names, kLock) != names->end();
  const std::string* foreign = nullptr;
  for (const std::string& name : *names) {
    // Other programs name their checkpoints so too.
    const bool is_checkpoint = parse_name(name).has_value();
    if (name == "journal" || (is_checkpoint && (has_lock || has_manifest(files, directory + "/" + name)))) return {};
    const bool is_ours = is_temporary(name)
                             ? has_lock
                             : name == kLock || name == "top.path" || name == "top.sock" || name == "lost+found" ||
                                   name.ends_with(".log") || name.ends_with(kTemporary);
    if (!is_ours && !foreign) foreign = &name;
  }
  if (!foreign) return {};
  return fail(Errc::invalid_argument, directory + ": is no data directory of Weft's and not empty: it holds " +
                                          printable(*foreign) + "; give an empty or new directory");
}

CheckpointStore::CheckpointStore(FileSystem& files, std::string directory, CheckpointOptions options)
    : files_(&files), directory_(std::move(directory)), options_(options) {}

Result<CheckpointStore> CheckpointStore::open(FileSystem& files, std::string directory, CheckpointOptions options) {
  if (options.keep == 0) return fail(Errc::invalid_argument, directory + ": keep 0 checkpoints; at least 1");
  CheckpointStore store(files, std::move(directory), options);
  WEFT_TRY(const bool is_new, files.make_directory(store.directory_));
  // Also when it is not new: who made it may have been killed before it came to this.
  const Status synced = files.sync_directory(parent_path(store.directory_));
  if (!synced && is_new) return fail(synced.error());
  if (!synced) log_warn(synced.error().text());
  if (!is_new) WEFT_CHECK(check_unoccupied(files, store.directory_));
  WEFT_TRY(store.lock_, files.lock(store.directory_ + "/" + std::string(kLock)));
  // The writer of the newest checkpoint may have been killed before it was durable.
  WEFT_CHECK(files.sync_directory(store.directory_));
  WEFT_TRY(const auto others, store.list_entries());
  for (const std::string& name : others)
    if (is_temporary(name)) WEFT_CHECK(store.remove_tree(store.directory_ + "/" + name));
  return store;
}

Result<CheckpointStore> CheckpointStore::look(FileSystem& files, std::string directory, CheckpointOptions options) {
  CheckpointStore store(files, std::move(directory), options);
  WEFT_CHECK(store.list_entries());
  return store;
}

Result<std::vector<std::string>> CheckpointStore::list_entries() {
  WEFT_TRY(auto names, files_->list(directory_));
  entries_.clear();
  std::erase_if(names, [&](const std::string& name) {
    const auto key = parse_name(name);
    if (key) entries_.push_back({*key, std::nullopt});
    return key.has_value();
  });
  std::sort(entries_.begin(), entries_.end(), [](Entry a, Entry b) { return a.key < b.key; });
  return names;
}

void CheckpointStore::add_entry(CheckpointKey key) {
  entries_.push_back({key, std::nullopt});
  std::sort(entries_.begin(), entries_.end(), [](Entry a, Entry b) { return a.key < b.key; });
}

Status CheckpointStore::may_change() const {
  if (lock_) return {};
  return fail(Errc::invalid_argument, directory_ + ": opened to look at only; open it as its owner to change it");
}

std::string CheckpointStore::path_of(CheckpointKey key) const { return directory_ + "/" + name_of(key); }

std::vector<CheckpointKey> CheckpointStore::keys() const {
  std::vector<CheckpointKey> all;
  for (const Entry& entry : entries_) all.push_back(entry.key);
  return all;
}

Status CheckpointStore::write(CheckpointKey key, const std::vector<NamedBytes>& files, const Json& info) {
  WEFT_CHECK(may_change());
  WEFT_CHECK(check_names(files));
  WEFT_CHECK(check_json(info));
  names_ = {};
  for (const NamedBytes& file : files) names_.insert(file.name);
  if (!entries_.empty() && entries_.back().key >= key) {
    WEFT_TRY(const std::string manifest, manifest_of(key, files, info));
    WEFT_TRY(const bool is_there, make_room(key, manifest));
    if (is_there) return {};
  }
  const std::string path = path_of(key), temporary = path + std::string(kTemporary);
  WEFT_CHECK(remove_tree(temporary));
  const Result<std::string> written = write_new(temporary, key, files, info);
  Status status = written ? files_->rename(temporary, path) : fail(written.error());
  if (!status) {
    // Void: what a failed sync left in the page cache may look right and be gone tomorrow.
    if (const Status removed = remove_tree(temporary); !removed) log_warn(removed.error().text());
    // A rename may have been done and yet be said to have failed.
    if (written && files_->list(path)) {
      add_entry(key);
      if (const Status removed = discard(key); !removed) log_warn(removed.error().text());
    }
    return status;
  }
  add_entry(key);
  status = files_->sync_directory(directory_);
  if (status) status = verify(key, &*written);
  if (!status) {
    if (const Status removed = discard(key); !removed) log_warn(removed.error().text());
    return status;
  }
  entry_of(key).is_good = true;
  prune();
  return {};
}

Result<std::string> CheckpointStore::write_new(const std::string& path, CheckpointKey key,
                                               const std::vector<NamedBytes>& files, const Json& info) {
  WEFT_TRY(const bool is_new, files_->make_directory(path));
  if (!is_new) return fail(Errc::storage, path + ": appeared while this process holds the lock");
  std::vector<ManifestFile> rows;
  for (const NamedBytes& file : files) {
    Digested digested(file);
    WEFT_CHECK(write_new_file(*files_, path + "/" + file.name, digested.source()));
    rows.push_back(digested.row());
  }
  // Last, so that a manifest says that all else is there.
  WEFT_TRY(std::string manifest, encode_manifest(key, rows, info));
  WEFT_CHECK(write_new_file(*files_, path + "/" + std::string(kManifest), as_bytes(manifest)));
  WEFT_CHECK(files_->sync_directory(path));
  return manifest;
}

Result<bool> CheckpointStore::make_room(CheckpointKey key, const std::string& manifest) {
  for (std::size_t i = entries_.size(); i-- > 0 && entries_[i].key >= key;) {
    Entry& entry = entries_[i];
    const bool is_same = entry.key == key;
    if (is_same && verify(key, &manifest)) {
      entry.is_good = true;
      return true;
    }
    if (is_good(entry))
      return fail(Errc::invalid_argument, directory_ + ": " + to_string(key) + " is not newer than its checkpoint of " +
                                              to_string(entry.key) + "; resume from that one, or clear the directory");
    if (is_same) WEFT_CHECK(discard(key));
  }
  return false;
}

bool CheckpointStore::is_good(Entry& entry) {
  if (!entry.is_good) {
    const Status status = verify(entry.key, nullptr);
    if (!status) log_warn(status.error().text());
    entry.is_good = status.has_value();
  }
  return *entry.is_good;
}

CheckpointStore::Entry& CheckpointStore::entry_of(CheckpointKey key) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](Entry e) { return e.key == key; });
  WEFT_ASSERT(found != entries_.end(), directory_ + ": no entry for " + to_string(key));
  return *found;
}

Result<Checkpoint> CheckpointStore::read(CheckpointKey key, const std::string* manifest) {
  Checkpoint checkpoint;
  checkpoint.key = key;
  checkpoint.path = path_of(key);
  const std::string manifest_path = checkpoint.path + "/" + std::string(kManifest);
  WEFT_TRY(const ByteBuffer text, files_->read(manifest_path, kMaxManifestBytes));
  if (manifest && as_text(text) != *manifest) return fail(Errc::corrupt, manifest_path + ": is not as it was written");
  WEFT_TRY(Manifest stated, decode_manifest(as_text(text), manifest_path));
  if (stated.key != key)
    return fail(Errc::corrupt, manifest_path + ": says " + to_string(stated.key) + ", the directory " + to_string(key));
  checkpoint.info = std::move(stated.info);
  for (const ManifestFile& file : stated.files) {
    const std::string path = checkpoint.path + "/" + file.name;
    WEFT_TRY(MappedFile mapped, files_->map(path, options_.max_file_bytes));
    if (mapped.size() != file.size)
      return fail(Errc::corrupt, path + ": " + std::to_string(mapped.size()) + " bytes, the manifest says " +
                                     std::to_string(file.size));
    WEFT_TRY(const Hash128 hash, digest_of(mapped));
    if (hash != file.hash)
      return fail(Errc::corrupt, path + ": hash " + to_string(hash) + ", the manifest says " + to_string(file.hash));
    checkpoint.files.emplace_back(file.name, std::move(mapped));
  }
  return checkpoint;
}

Status CheckpointStore::verify(CheckpointKey key, const std::string* manifest) {
  WEFT_TRY([[maybe_unused]] const Checkpoint checkpoint, read(key, manifest));
  return {};
}

Result<std::optional<Checkpoint>> CheckpointStore::latest() {
  if (lock_) return newest_that_verifies();
  // The owner may prune what was listed before it is read; it always has put a newer one there first.
  for (;;) {
    WEFT_CHECK(list_entries());
    const std::vector<CheckpointKey> before = keys();
    auto found = newest_that_verifies();
    if (found && *found && (*found)->skipped.empty()) return found;
    WEFT_CHECK(list_entries());
    if (keys() == before) return found;
  }
}

Result<Checkpoint> CheckpointStore::at(CheckpointKey key) {
  if (!lock_) WEFT_CHECK(list_entries());
  if (!std::ranges::any_of(entries_, [&](const Entry& entry) { return entry.key == key; }))
    return fail(Errc::not_found, directory_ + ": no checkpoint of " + to_string(key));
  return read(key, nullptr);
}

Result<std::optional<Checkpoint>> CheckpointStore::newest_that_verifies() {
  std::vector<std::string> skipped;
  for (std::size_t i = entries_.size(); i-- > 0;) {
    auto checkpoint = read(entries_[i].key, nullptr);
    entries_[i].is_good = checkpoint.has_value();
    if (checkpoint) {
      checkpoint->skipped = std::move(skipped);
      return std::optional<Checkpoint>(*std::move(checkpoint));
    }
    log_warn("checkpoint of " + to_string(entries_[i].key) +
             " does not verify, trying the one before: " + checkpoint.error().text());
    skipped.push_back(checkpoint.error().text());
  }
  if (skipped.empty()) return std::optional<Checkpoint>();
  std::string text = directory_ + ": no checkpoint verifies";
  for (const std::string& reason : skipped) text += "; " + reason;
  return fail(Errc::corrupt, std::move(text));
}

void CheckpointStore::prune() {
  std::size_t good = 0, before = entries_.size();
  for (std::size_t i = entries_.size(); i-- > 0;) {
    if (good < options_.keep) {
      good += is_good(entries_[i]) ? 1 : 0;
    } else if (const Status removed = discard(entries_[i].key); !removed) {
      log_warn(removed.error().text());  // costs disk space, not safety; the next write tries again
    }
  }
  if (entries_.size() == before) return;
  // For good: who removes what belongs to them (a journal) must not see them come back after a power cut.
  if (const Status synced = files_->sync_directory(directory_); !synced) log_warn(synced.error().text());
}

Status CheckpointStore::discard_after(CheckpointKey key) {
  while (!entries_.empty() && entries_.back().key > key) WEFT_CHECK(discard(entries_.back().key));
  return files_->sync_directory(directory_);
}

Status CheckpointStore::clear() {
  WEFT_CHECK(may_change());
  while (!entries_.empty()) WEFT_CHECK(discard(entries_.front().key));
  return files_->sync_directory(directory_);
}

bool CheckpointStore::is_ours(const std::string& path) const {
  if (has_manifest(*files_, path)) return true;
  // A power cut in the middle of a removal may bring back the directory's name without all that was in it.
  const auto names = files_->list(path);
  return names && std::ranges::all_of(*names, [&](const std::string& name) { return names_.contains(name); });
}

Status CheckpointStore::discard(CheckpointKey key) {
  // In one step it stops being a checkpoint, so that no crash leaves half of one under its name.
  const std::string path = path_of(key), temporary = path + std::string(kTemporary);
  if (!is_ours(path)) {
    entries_.erase(entries_.begin() + (&entry_of(key) - entries_.data()));
    log_warn(path + ": left alone: without a manifest.json it is no checkpoint of Weft's");
    return {};
  }
  WEFT_CHECK(remove_tree(temporary));
  WEFT_CHECK(files_->rename(path, temporary));
  entries_.erase(entries_.begin() + (&entry_of(key) - entries_.data()));
  return remove_tree(temporary);
}

Status CheckpointStore::remove_tree(const std::string& path) {
  // First as if it were a file: a link is removed, never followed.
  const Status removed = files_->remove(path);
  if (removed || removed.error().code() == Errc::not_found) return {};
  auto names = files_->list(path);
  if (!names) return removed;
  for (const std::string& name : *names) WEFT_CHECK(files_->remove(path + "/" + name));
  return files_->remove(path);
}

}  // namespace weft::storage
