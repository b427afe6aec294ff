// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace weft {

/// A 128-bit digest: XXH3-128, seed 0, of a stream of bytes.
struct Hash128 {
  std::uint64_t high = 0, low = 0;
  bool operator==(const Hash128&) const = default;
};

/// 32 lower-case hex digits, high word first (the canonical XXH128 form).
std::string to_string(Hash128 hash);
std::optional<Hash128> parse_hash128(std::string_view hex) noexcept;

/// Digest of one block of bytes.
/// @source XXH3-128, xxHash specification 0.2
Hash128 hash_bytes(const void* data, std::size_t size) noexcept;

/// Feeds a digest piece by piece. Multi-byte values are hashed little-endian.
class StateHasher {
 public:
  StateHasher();
  ~StateHasher();
  StateHasher(const StateHasher&) = delete;
  StateHasher& operator=(const StateHasher&) = delete;

  void reset() noexcept;
  void add_bytes(const void* data, std::size_t size) noexcept;
  template <class T>
  void add(std::span<const T> values) noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    add_bytes(values.data(), values.size_bytes());
  }
  void add(std::uint64_t value) noexcept { add_bytes(&value, sizeof value); }
  void add(Hash128 value) noexcept;
  Hash128 digest() const noexcept;

 private:
  void* state_;
};

}  // namespace weft
