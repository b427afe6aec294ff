// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/cache_file.hpp"

#include "core/log.hpp"
#include "core/state_hash.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace weft::gpu {
namespace {

constexpr std::uint32_t kForm = 1;

struct Head {
  char magic[8] = {'W', 'E', 'F', 'T', 'P', 'I', 'P', 'E'};
  std::uint32_t form = kForm, zero = 0;
  std::uint8_t uuid[VK_UUID_SIZE] = {};
  std::uint32_t driver_version = 0, padding = 0;
  std::uint64_t length = 0;
  std::uint64_t hash_high = 0, hash_low = 0;
};
static_assert(sizeof(Head) == 64);

Head head_of(const Context& context) {
  VkPhysicalDeviceProperties properties{};
  vkGetPhysicalDeviceProperties(context.physical, &properties);
  Head head;
  std::memcpy(head.uuid, properties.pipelineCacheUUID, VK_UUID_SIZE);
  head.driver_version = properties.driverVersion;
  return head;
}

std::string default_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/') return std::string(cache) + "/weft";
  if (const char* home = std::getenv("HOME"); home && *home == '/') return std::string(home) + "/.cache/weft";
  return "";
}

const char* problem(const Head& head, const Head& own, std::uint64_t bytes) {
  if (std::memcmp(head.magic, own.magic, sizeof head.magic) != 0) return "is no pipeline cache";
  if (head.form != own.form) return "has another form";
  if (std::memcmp(head.uuid, own.uuid, sizeof head.uuid) != 0 || head.driver_version != own.driver_version)
    return "is of another device or driver";
  return head.length == bytes - sizeof head ? nullptr : "is cut off or too long";
}

/// Reads the data after a valid header; returns the error otherwise, null when there is none.
const char* read(const std::string& path, const Head& own, std::vector<char>& data) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "is no file";  // a pipe would be waited for
  std::ifstream in(path, std::ios::binary);
  const std::uint64_t bytes = std::filesystem::file_size(path, error);
  if (!in || error) return "cannot be read";
  Head head;
  if (bytes < sizeof head) return "is cut off";
  in.read(reinterpret_cast<char*>(&head), sizeof head);
  if (in)
    if (const char* const what = problem(head, own, bytes)) return what;
  data.resize(bytes - sizeof head);
  in.read(data.data(), static_cast<std::streamsize>(data.size()));
  if (!in) return "cannot be read";
  const Hash128 hash = hash_bytes(data.data(), data.size());
  return hash == Hash128{head.hash_high, head.hash_low} ? nullptr : "has changed since it was written";
}

}  // namespace

std::string cache_path(const Context& context, const std::string& folder) {
  const std::string home = folder == "-" ? "" : folder.empty() ? default_folder() : folder;
  if (home.empty()) return "";
  const Head head = head_of(context);
  std::string name;
  for (const std::uint8_t byte : head.uuid)
    for (const int nibble : {byte >> 4, byte & 15}) name += "0123456789abcdef"[nibble];
  return home + "/pipelines-" + name + "-" + std::to_string(head.driver_version) + ".cache";
}

std::vector<char> read_cache(const Context& context, const std::string& path) {
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return {};
  std::vector<char> data;
  if (const char* const what = read(path, head_of(context), data)) {
    log_warn("vulkan: the pipeline cache " + path + " " + what + "; it is ignored and will be written anew");
    return {};
  }
  return data;
}

void write_cache(const Context& context, const std::string& path, const std::vector<char>& data) {
  Head head = head_of(context);
  const Hash128 hash = hash_bytes(data.data(), data.size());
  head.length = data.size();
  head.hash_high = hash.high;
  head.hash_low = hash.low;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const std::string beside = path + "." + std::to_string(getpid());
  {
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(&head), sizeof head);
    out.write(data.data(), static_cast<std::streamsize>(data.size()));
    out.close();
    if (!out) {
      log_warn("vulkan: could not write the pipeline cache " + beside);
      std::filesystem::remove(beside, error);
      return;
    }
  }
  std::filesystem::rename(beside, path, error);
  if (error) {
    log_warn("vulkan: could not rename the pipeline cache " + beside + ": " + error.message());
    std::filesystem::remove(beside, error);
  }
}

}  // namespace weft::gpu
