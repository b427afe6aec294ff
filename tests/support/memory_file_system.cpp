// SPDX-License-Identifier: Apache-2.0

#include "tests/support/memory_file_system.hpp"

#include "tests/support/memory_node.hpp"
#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

namespace weft::storage {

struct MemoryFileSystem::State {
  std::shared_ptr<MemoryNode> find(const std::string& path) const {
    auto node = root;
    for (std::size_t at = 0; node && at < path.size();) {
      const std::size_t slash = std::min(path.find('/', at), path.size());
      const std::string part = path.substr(at, slash - at);
      if (!part.empty() && part != ".") {
        const auto found = node->entries.find(part);
        node = found == node->entries.end() ? nullptr : found->second;
      }
      at = slash + 1;
    }
    return node;
  }
  /// The directory that has, or would have, the last name of a path.
  std::shared_ptr<MemoryNode> parent_of(const std::string& path) const {
    const auto parent = find(parent_path(path));
    return parent && parent->is_directory ? parent : nullptr;
  }

  std::mutex mutex;  // guards all that follows and every node
  std::shared_ptr<MemoryNode> root = std::make_shared<MemoryNode>(true);
  std::set<std::string> locks;
  std::uint64_t starts = 0;  // files opened and locks taken in an earlier one are void
};

namespace {

std::string leaf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Failure refuse(const std::string& path, const char* action, const char* reason) {
  return fail(Errc::storage, path + ": cannot " + action + ": " + reason);
}
Failure missing(const std::string& path, const char* action) {
  return fail(Errc::not_found, path + ": cannot " + action + ": No such file or directory");
}

}  // namespace

class MemoryFileSystem::OpenFile final : public File {
 public:
  OpenFile(std::shared_ptr<State> state, std::string path, std::shared_ptr<MemoryNode> node)
      : state_(std::move(state)), path_(std::move(path)), node_(std::move(node)), start_(state_->starts) {}
  Status write(ByteSpan bytes) override {
    const std::lock_guard lock(state_->mutex);
    WEFT_CHECK(usable());
    node_->data.insert(node_->data.end(), bytes.begin(), bytes.end());
    return {};
  }
  Status sync() override {
    const std::lock_guard lock(state_->mutex);
    WEFT_CHECK(usable());
    node_->sync();
    return {};
  }
  Status close() override {
    const std::lock_guard lock(state_->mutex);
    WEFT_CHECK(usable());
    is_closed_ = true;
    return {};
  }

 private:
  Status usable() const {
    if (start_ != state_->starts) return refuse(path_, "use", "its process is gone");
    if (is_closed_) return refuse(path_, "use", "it was closed");
    return {};
  }
  std::shared_ptr<State> state_;
  std::string path_;
  std::shared_ptr<MemoryNode> node_;
  std::uint64_t start_;
  bool is_closed_ = false;
};

class MemoryFileSystem::HeldLock final : public FileLock {
 public:
  HeldLock(std::shared_ptr<State> state, std::string path)
      : state_(std::move(state)), path_(std::move(path)), start_(state_->starts) {}
  ~HeldLock() override {
    const std::lock_guard lock(state_->mutex);
    if (start_ == state_->starts) state_->locks.erase(path_);
  }

 private:
  std::shared_ptr<State> state_;
  std::string path_;
  std::uint64_t start_;
};

MemoryFileSystem::MemoryFileSystem() : MemoryFileSystem(std::make_shared<State>()) {}
MemoryFileSystem::MemoryFileSystem(std::shared_ptr<State> state) : state_(std::move(state)) {}
MemoryFileSystem::~MemoryFileSystem() = default;

void MemoryFileSystem::process_crash() {
  const std::lock_guard lock(state_->mutex);
  ++state_->starts;
  state_->locks.clear();
}

void MemoryFileSystem::power_cut(std::uint64_t seed) {
  process_crash();
  const std::lock_guard lock(state_->mutex);
  RandomStream random(seed, 0, RandomPurpose::test);
  std::set<const MemoryNode*> seen;
  std::vector<std::shared_ptr<MemoryNode>> open = {state_->root};
  while (!open.empty()) {
    const auto node = open.back();
    open.pop_back();
    if (!seen.insert(node.get()).second) continue;
    node->power_cut(random);
    for (const auto& [name, child] : node->entries) open.push_back(child);
  }
}

void MemoryFileSystem::lose_unsynced(const std::string& path) {
  const std::lock_guard lock(state_->mutex);
  if (const auto node = state_->find(path)) node->lose_unsynced();
}

std::unique_ptr<MemoryFileSystem> MemoryFileSystem::copy() const {
  const std::lock_guard lock(state_->mutex);
  auto state = std::make_shared<State>();
  state->root = copy_tree(state_->root);
  return std::unique_ptr<MemoryFileSystem>(new MemoryFileSystem(std::move(state)));
}

bool MemoryFileSystem::flip_bit(const std::string& path, std::uint64_t bit) {
  const std::lock_guard lock(state_->mutex);
  const auto node = state_->find(path);
  if (!node || bit / 8 >= node->data.size()) return false;
  const auto mask = static_cast<std::byte>(1u << (bit % 8));
  node->data[bit / 8] ^= mask;
  if (bit / 8 < node->durable_data.size()) node->durable_data[bit / 8] ^= mask;
  return true;
}

bool MemoryFileSystem::resize(const std::string& path, std::uint64_t size) {
  const std::lock_guard lock(state_->mutex);
  const auto node = state_->find(path);
  if (!node || node->is_directory) return false;
  node->data.resize(size);
  node->durable_data.resize(size);
  return true;
}

std::vector<std::string> MemoryFileSystem::all_files() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::string> found;
  std::vector<std::pair<std::string, std::shared_ptr<MemoryNode>>> open = {{"", state_->root}};
  while (!open.empty()) {
    const auto [path, node] = open.back();
    open.pop_back();
    if (!node->is_directory) found.push_back(path);
    for (const auto& [name, child] : node->entries) open.push_back({path.empty() ? name : path + "/" + name, child});
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<ByteBuffer> MemoryFileSystem::read(const std::string& path, std::size_t max_bytes) {
  const std::lock_guard lock(state_->mutex);
  const auto node = state_->find(path);
  if (!node) return missing(path, "open");
  if (node->is_directory) return fail(Errc::storage, path + ": not a regular file");
  if (node->data.size() > max_bytes)
    return fail(Errc::too_large, path + ": " + std::to_string(node->data.size()) + " bytes, at most " +
                                     std::to_string(max_bytes) + " are read");
  ByteBuffer bytes(node->data.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), node->data.data(), bytes.size());
  return bytes;
}

Result<std::unique_ptr<File>> MemoryFileSystem::open(const std::string& path, OpenMode mode) {
  const std::lock_guard lock(state_->mutex);
  const auto parent = state_->parent_of(path);
  if (!parent) return missing(path, "open for writing");
  auto node = state_->find(path);
  if (node && node->is_directory) return refuse(path, "open for writing", "Is a directory");
  if (node && mode == OpenMode::create_new) return refuse(path, "open for writing", "File exists");
  if (!node) {
    node = std::make_shared<MemoryNode>(false);
    parent->change({{leaf(path), node}});
  }
  if (mode == OpenMode::create) node->clear();
  return std::unique_ptr<File>(std::make_unique<OpenFile>(state_, path, node));
}

Status MemoryFileSystem::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(state_->mutex);
  const auto node = state_->find(from), target = state_->find(to);
  const auto parent = state_->parent_of(from), new_parent = state_->parent_of(to);
  if (!node || !parent || !new_parent) return missing(from, "rename");
  if (target == node) return {};
  if (target && target->is_directory != node->is_directory) return refuse(from, "rename", "not of one kind");
  if (target && !target->entries.empty()) return refuse(from, "rename", "Directory not empty");
  if (parent == new_parent) {
    parent->change({{leaf(from), nullptr}, {leaf(to), node}});
  } else {
    new_parent->change({{leaf(to), node}});
    parent->change({{leaf(from), nullptr}});
  }
  return {};
}

Status MemoryFileSystem::sync_directory(const std::string& path) {
  const std::lock_guard lock(state_->mutex);
  const auto node = state_->find(path);
  if (!node) return missing(path, "open");
  if (!node->is_directory) return refuse(path, "open", "Not a directory");
  node->sync();
  return {};
}

Result<bool> MemoryFileSystem::make_directory(const std::string& path) {
  const std::lock_guard lock(state_->mutex);
  if (const auto node = state_->find(path)) {
    if (node->is_directory) return false;
    return refuse(path, "make the directory", "File exists");
  }
  const auto parent = state_->parent_of(path);
  if (!parent) return missing(path, "make the directory");
  parent->change({{leaf(path), std::make_shared<MemoryNode>(true)}});
  return true;
}

Result<std::vector<std::string>> MemoryFileSystem::list(const std::string& path) {
  const std::lock_guard lock(state_->mutex);
  const auto node = state_->find(path);
  if (!node) return missing(path, "list");
  if (!node->is_directory) return refuse(path, "list", "Not a directory");
  std::vector<std::string> names;
  for (const auto& [name, child] : node->entries) names.push_back(name);
  return names;
}

Status MemoryFileSystem::remove(const std::string& path) {
  const std::lock_guard lock(state_->mutex);
  const auto node = state_->find(path);
  if (!node || node == state_->root) return missing(path, "remove");
  if (!node->entries.empty()) return refuse(path, "remove", "Directory not empty");
  state_->parent_of(path)->change({{leaf(path), nullptr}});
  return {};
}

Result<std::unique_ptr<FileLock>> MemoryFileSystem::lock(const std::string& path) {
  const std::lock_guard lock(state_->mutex);
  const auto parent = state_->parent_of(path);
  if (!parent) return missing(path, "open the lock");
  if (!state_->find(path)) parent->change({{leaf(path), std::make_shared<MemoryNode>(false)}});
  if (!state_->locks.insert(path).second) return fail(Errc::storage, path + ": in use by another process");
  return std::unique_ptr<FileLock>(std::make_unique<HeldLock>(state_, path));
}

}  // namespace weft::storage
