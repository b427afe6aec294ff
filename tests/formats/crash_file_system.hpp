// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/file_system.hpp"

#include "core/philox.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace weft::formats {

/// A file system in memory that tells what programs see from what a power cut leaves, and that fails or stops at the
/// Nth operation. It is as unkind as POSIX allows: without a sync, file data may be kept, lost, cut or zeroed, and
/// each entry of a directory may or may not be there; a failed sync loses the data for good, whatever later syncs say.
class CrashFileSystem final : public FileSystem {
 public:
  enum class Fault { none, fail, crash, corrupt };

  CrashFileSystem() : root_(std::make_shared<Node>(true)) {}

  /// From now on the `at`th operation (from 1) fails once, or it and all after it never happen, or (a write) it stores
  /// one bit wrong and says nothing.
  void arm(Fault fault, std::size_t at) {
    fault_ = fault;
    fault_at_ = operations_ + at;
  }
  std::size_t operations() const { return operations_; }
  bool has_struck() const { return has_struck_; }

  /// What a new process finds after this one was killed.
  std::unique_ptr<CrashFileSystem> after_kill() const {
    auto next = std::make_unique<CrashFileSystem>();
    next->root_ = root_;
    return next;
  }
  /// What the machine finds after a power cut; `random` decides about all that was not synced.
  std::unique_ptr<CrashFileSystem> after_power_cut(RandomStream& random) const {
    auto next = std::make_unique<CrashFileSystem>();
    next->root_ = survivor(*root_, random);
    return next;
  }

  Result<ByteBuffer> read(const std::string& path, std::size_t max_bytes) override {
    if (Status status = step(path); !status) return fail(std::move(status).error());
    const auto node = find(path);
    if (!node) return fail(Errc::not_found, path + ": not there");
    if (node->is_directory) return fail(Errc::storage, path + ": not a regular file");
    if (node->data.size() > max_bytes) return fail(Errc::too_large, path + ": too large");
    ByteBuffer bytes(node->data.size());
    if (!bytes.empty()) std::memcpy(bytes.data(), node->data.data(), bytes.size());
    return bytes;
  }

  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    if (Status status = step(path); !status) return fail(std::move(status).error());
    const auto parent = find(parent_path(path));
    if (!parent) return fail(Errc::not_found, path + ": no directory");
    auto node = find(path);
    if (node && mode == OpenMode::create_new) return fail(Errc::storage, path + ": exists");
    if (!node) {
      node = std::make_shared<Node>(false);
      parent->change({{leaf(path), node}});
    }
    if (mode == OpenMode::create) node->data.clear();
    return std::unique_ptr<File>(std::make_unique<OpenFile>(*this, path, node));
  }

  Status rename(const std::string& from, const std::string& to) override {
    WEFT_CHECK(step(from));
    const auto node = find(from), target = find(to), parent = find(parent_path(from));
    if (!node || parent != find(parent_path(to))) return fail(Errc::not_found, from + ": not there");
    if (target && target->is_directory && !target->entries.empty())
      return fail(Errc::storage, to + ": directory not empty");
    parent->change({{leaf(from), nullptr}, {leaf(to), node}});
    return {};
  }

  Status sync_directory(const std::string& path) override {
    const auto node = find(path);
    if (Status status = step(path); !status) {
      if (node && fault_ == Fault::fail) node->pending.clear();  // lost, and no later sync brings it back
      return status;
    }
    if (!node) return fail(Errc::not_found, path + ": not there");
    for (const Change& change : node->pending) apply(node->durable_entries, change);
    node->pending.clear();
    return {};
  }

  Result<bool> make_directory(const std::string& path) override {
    if (Status status = step(path); !status) return fail(std::move(status).error());
    if (find(path)) return false;
    const auto parent = find(parent_path(path));
    if (!parent) return fail(Errc::not_found, path + ": no parent");
    parent->change({{leaf(path), std::make_shared<Node>(true)}});
    return true;
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    if (Status status = step(path); !status) return fail(std::move(status).error());
    const auto node = find(path);
    if (!node || !node->is_directory) return fail(Errc::not_found, path + ": not there");
    std::vector<std::string> names;
    for (const auto& [name, child] : node->entries) names.push_back(name);
    return names;
  }

  Status remove(const std::string& path) override {
    WEFT_CHECK(step(path));
    const auto node = find(path);
    if (!node) return fail(Errc::not_found, path + ": not there");
    if (!node->entries.empty()) return fail(Errc::storage, path + ": directory not empty");
    find(parent_path(path))->change({{leaf(path), nullptr}});
    return {};
  }

  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    if (Status status = step(path); !status) return fail(std::move(status).error());
    if (!locks_->insert(path).second) return fail(Errc::storage, path + ": in use by another process");
    return std::unique_ptr<FileLock>(std::make_unique<Lock>(locks_, path));
  }

  /// Flips one bit of a file, as a worn disk might.
  void flip(const std::string& path, std::size_t bit) {
    find(path)->data[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
  void truncate(const std::string& path, std::size_t size) { find(path)->data.resize(size); }
  std::size_t size(const std::string& path) const { return find(path)->data.size(); }

 private:
  struct Node;
  using Entries = std::map<std::string, std::shared_ptr<Node>>;
  using Change = std::vector<std::pair<std::string, std::shared_ptr<Node>>>;  // null: removed; all or none survives

  struct Node {
    explicit Node(bool directory) : is_directory(directory) {}
    void change(Change change) {
      apply(entries, change);
      pending.push_back(std::move(change));
    }
    bool is_directory;
    Entries entries, durable_entries;
    std::vector<Change> pending;
    std::vector<std::byte> data, durable_data;
    bool has_lost_data = false;
  };

  class OpenFile final : public File {
   public:
    OpenFile(CrashFileSystem& files, std::string path, std::shared_ptr<Node> node)
        : files_(files), path_(std::move(path)), node_(std::move(node)) {}
    Status write(ByteSpan bytes) override {
      Status status = files_.step(path_);
      const std::size_t size = status ? bytes.size() : files_.is_struck_now_ ? bytes.size() / 2 : 0;
      node_->data.insert(node_->data.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      if (status && files_.is_struck_now_ && size != 0) node_->data.back() ^= std::byte{4};
      return status;
    }
    Status sync() override {
      if (Status status = files_.step(path_); !status) {
        node_->has_lost_data = true;
        return status;
      }
      if (!node_->has_lost_data) node_->durable_data = node_->data;
      return {};
    }
    Status close() override { return files_.step(path_); }

   private:
    CrashFileSystem& files_;
    std::string path_;
    std::shared_ptr<Node> node_;
  };

  class Lock final : public FileLock {
   public:
    Lock(std::shared_ptr<std::set<std::string>> locks, std::string path)
        : locks_(std::move(locks)), path_(std::move(path)) {}
    ~Lock() override { locks_->erase(path_); }

   private:
    std::shared_ptr<std::set<std::string>> locks_;
    std::string path_;
  };

  static void apply(Entries& entries, const Change& change) {
    for (const auto& [name, node] : change) {
      if (node)
        entries[name] = node;
      else
        entries.erase(name);
    }
  }

  static std::string leaf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  Status step(const std::string& path) {
    ++operations_;
    is_struck_now_ = fault_ != Fault::none && operations_ == fault_at_;
    if (is_struck_now_ || (fault_ == Fault::crash && operations_ > fault_at_)) {
      has_struck_ = true;
      if (fault_ == Fault::corrupt) return {};
      return fail(Errc::storage, path + ": injected fault");
    }
    return {};
  }

  std::shared_ptr<Node> find(const std::string& path) const {
    auto node = root_;
    std::size_t at = 0;
    while (node && at < path.size()) {
      const std::size_t slash = std::min(path.find('/', at), path.size());
      if (slash != at && path.substr(at, slash - at) != ".") {
        const auto found = node->entries.find(path.substr(at, slash - at));
        node = found == node->entries.end() ? nullptr : found->second;
      }
      at = slash + 1;
    }
    return node;
  }

  static std::shared_ptr<Node> survivor(const Node& node, RandomStream& random) {
    auto copy = std::make_shared<Node>(node.is_directory);
    Entries entries = node.durable_entries;
    for (const Change& change : node.pending)
      if (random.next_below(2)) apply(entries, change);
    for (const auto& [name, child] : entries) copy->entries[name] = survivor(*child, random);
    copy->durable_entries = copy->entries;
    copy->data = node.durable_data;
    if (node.data != node.durable_data) {
      const std::uint32_t choice = random.next_below(4);
      if (choice == 1) copy->data = node.data;
      if (choice == 2) copy->data.assign(node.data.begin(), node.data.begin() + std::ptrdiff_t(node.data.size() / 2));
      if (choice == 3) copy->data.assign(node.data.size(), std::byte{0});
    }
    copy->durable_data = copy->data;
    return copy;
  }

  std::shared_ptr<Node> root_;
  std::shared_ptr<std::set<std::string>> locks_ = std::make_shared<std::set<std::string>>();
  std::size_t operations_ = 0, fault_at_ = 0;
  Fault fault_ = Fault::none;
  bool has_struck_ = false, is_struck_now_ = false;
};

}  // namespace weft::formats
