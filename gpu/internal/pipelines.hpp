// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/context.hpp"
#include "gpu/internal/shader.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace weft::gpu {

/// Values of a shader's specialisation constants 1, 2, ... 7 and 15 (0 is the variant's own: see
/// gpu/shaders/exact.glsl; 8 to 14 are the recorder's and the device's).
class Constants {
 public:
  static constexpr std::size_t kMost = 8;
  Constants() = default;
  Constants(std::initializer_list<std::uint32_t> values);
  std::size_t size() const noexcept { return size_; }
  std::uint32_t operator[](std::size_t i) const noexcept { return values_[i]; }
  auto operator<=>(const Constants&) const = default;

 private:
  std::array<std::uint32_t, kMost> values_{};
  std::size_t size_ = 0;
};

/// Layout by which a shader of a command graph finds its operands: see gpu/shaders/operands.glsl.
struct TableForm {
  std::uint32_t shares = 0;  // entries that a group runs side by side; 0: no table, operands are pushed
  std::uint32_t moving = 0, scattered = 0;
  bool is_pushed = false;  // the first entry and the steps, instead of a table
  auto operator<=>(const TableForm&) const = default;
};

/// Compiled shaders, made when they are first asked for, with the driver's cache kept on disk.
/// @thread any
class Pipelines {
 public:
  /// Push constants, as gpu/shaders/operands.glsl declares them: where a table of operands lies, or operands
  /// themselves.
  struct Push {
    std::uint64_t table = 0;
    std::uint32_t table_stride = 0, entries = 0;
    std::array<std::byte, 112> operands{};
  };
  /// A number that every device has.
  static constexpr std::uint32_t kPushBytes = 128;
  static_assert(sizeof(Push) == kPushBytes);

  static Result<std::unique_ptr<Pipelines>> create(std::shared_ptr<Context> context, const std::string& cache_folder);
  /// Writes the cache back.
  ~Pipelines();
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;

  Result<VkPipeline> get(const Shader& shader, const Constants& constants, const TableForm& table);
  VkPipelineLayout layout() const noexcept { return layout_; }
  /// Path of the cache file; empty: none.
  const std::string& cache_file() const noexcept { return cache_file_; }

 private:
  explicit Pipelines(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  Status initialise(const std::string& cache_folder);
  struct Key {
    const Shader* shader;
    Constants constants;
    TableForm table;
    auto operator<=>(const Key&) const = default;
  };
  Result<VkPipeline> make(const Key& key);
  void save() const;

  std::shared_ptr<Context> context_;
  std::mutex mutex_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::string cache_file_;
  std::map<Key, VkPipeline> pipelines_;
};

}  // namespace weft::gpu
