// SPDX-License-Identifier: Apache-2.0

#include "formats/entity/internal/zstd.hpp"

#include <zstd.h>

#include <cstring>
#include <string>

namespace weft::formats {
namespace {
constexpr int kLevel = 3;
}

Result<ByteBuffer> pack_zstd(ByteSpan bytes) {
  ByteBuffer room(::ZSTD_compressBound(bytes.size()));
  const std::size_t size = ::ZSTD_compress(room.data(), room.size(), bytes.data(), bytes.size(), kLevel);
  if (::ZSTD_isError(size)) return fail(Errc::internal, std::string("zstd: ") + ::ZSTD_getErrorName(size));
  ByteBuffer frame(size);
  std::memcpy(frame.data(), room.data(), size);
  return frame;
}

Result<ByteBuffer> unpack_zstd(ByteSpan frame, std::size_t size) {
  const std::size_t whole = ::ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (::ZSTD_isError(whole)) return fail(Errc::corrupt, "no whole zstd frame");
  if (whole != frame.size())
    return fail(Errc::corrupt,
                "a zstd frame of " + std::to_string(whole) + " bytes in " + std::to_string(frame.size()));
  const unsigned long long stated = ::ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (stated == ZSTD_CONTENTSIZE_UNKNOWN || stated == ZSTD_CONTENTSIZE_ERROR)
    return fail(Errc::corrupt, "a zstd frame that does not state its size");
  if (stated != size)
    return fail(Errc::corrupt,
                "a zstd frame of " + std::to_string(stated) + " bytes, the header says " + std::to_string(size));
  ByteBuffer bytes(size);
  const std::size_t got = ::ZSTD_decompress(bytes.data(), bytes.size(), frame.data(), frame.size());
  if (::ZSTD_isError(got)) return fail(Errc::corrupt, std::string("zstd: ") + ::ZSTD_getErrorName(got));
  if (got != size)
    return fail(Errc::corrupt, "unpacks to " + std::to_string(got) + " bytes, not " + std::to_string(size));
  return bytes;
}

}  // namespace weft::formats
