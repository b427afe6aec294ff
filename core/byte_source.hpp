// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/assert.hpp"
#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

namespace weft {

/// Content of a file or tensor, produced in order and in parts as often as asked for, and the same each time: so that
/// it can be hashed first and written after, and never stands in memory as a whole.
/// @thread one at a time
class ByteSource {
 public:
  /// Receiver of consecutive parts.
  using Sink = std::function<Status(ByteSpan)>;
  /// Hands all parts to a sink, and passes on the sink's failure.
  using Produce = std::function<Status(const Sink&)>;

  ByteSource() = default;
  /// Bytes in memory, which must outlive the source.
  template <class Bytes>
  requires std::is_convertible_v<const Bytes&, ByteSpan> ByteSource(const Bytes& bytes)
      : bytes_(bytes), size_(bytes_.size()) {}
  ByteSource(std::uint64_t size, Produce produce) : produce_(std::move(produce)), size_(size) {}

  std::uint64_t size() const noexcept { return size_; }
  Status produce(const Sink& sink) const {
    if (!produce_) return bytes_.empty() ? Status() : sink(bytes_);
    std::uint64_t produced = 0;
    WEFT_CHECK(produce_([&](ByteSpan part) {
      produced += part.size();
      return sink(part);
    }));
    WEFT_ASSERT(produced == size_,
                "a source of " + std::to_string(size_) + " bytes produced " + std::to_string(produced));
    return {};
  }

 private:
  ByteSpan bytes_;
  Produce produce_;
  std::uint64_t size_ = 0;
};

/// All of a source in memory.
inline Result<ByteBuffer> collect(const ByteSource& source) {
  ByteBuffer bytes(source.size());
  std::size_t at = 0;
  WEFT_CHECK(source.produce([&](ByteSpan part) -> Status {
    WEFT_ASSERT(part.size() <= bytes.size() - at, "a source produces more than it said");
    std::memcpy(bytes.data() + at, part.data(), part.size());
    at += part.size();
    return {};
  }));
  return bytes;
}

}  // namespace weft
