// SPDX-License-Identifier: Apache-2.0

#include "formats/entity/internal/zstd.hpp"

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>

namespace weft::formats {
namespace {

constexpr int kLevel = 3;
constexpr std::size_t kForgotten = std::size_t{4} << 20;
constexpr int kWindowLog = 23;  // of a frame that is unpacked in parts; ours have 21 at most

Failure failure(Errc code, std::size_t result) {
  return fail(code, std::string("zstd: ") + ::ZSTD_getErrorName(result));
}

/// Compression that takes its input in blocks of one size, so that the frame does not depend on the parts it came in.
class Packer {
 public:
  Packer(std::uint64_t size, const ByteSource::Sink& sink)
      : context_(::ZSTD_createCCtx()), out_(::ZSTD_CStreamOutSize()), sink_(sink) {
    if (!context_) throw std::bad_alloc();
    ::ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kLevel);
    ::ZSTD_CCtx_setPledgedSrcSize(context_.get(), size);
  }

  Status add(ByteSpan part) {
    ZSTD_inBuffer in{part.data(), part.size(), 0};
    while (in.pos < in.size) WEFT_CHECK(step(in, ZSTD_e_continue));
    return {};
  }
  Status finish() {
    ZSTD_inBuffer none{nullptr, 0, 0};
    do WEFT_CHECK(step(none, ZSTD_e_end));
    while (left_ != 0);
    return {};
  }

 private:
  struct Free {
    void operator()(ZSTD_CCtx* context) const noexcept { ::ZSTD_freeCCtx(context); }
  };

  Status step(ZSTD_inBuffer& in, ZSTD_EndDirective directive) {
    ZSTD_outBuffer out{out_.data(), out_.size(), 0};
    left_ = ::ZSTD_compressStream2(context_.get(), &out, &in, directive);
    if (::ZSTD_isError(left_)) return failure(Errc::internal, left_);
    return out.pos ? sink_(ByteSpan(out_.data(), out.pos)) : Status();
  }

  std::unique_ptr<ZSTD_CCtx, Free> context_;
  ByteBuffer out_;
  const ByteSource::Sink& sink_;
  std::size_t left_ = 0;  // what the last step left to be flushed
};

Status unpack_at_once(ByteSpan frame, std::size_t size, const ByteSource::Sink& sink) {
  ByteBuffer bytes(size);
  const std::size_t got = ::ZSTD_decompress(bytes.data(), bytes.size(), frame.data(), frame.size());
  if (::ZSTD_isError(got)) return failure(Errc::corrupt, got);
  if (got != size)
    return fail(Errc::corrupt, "unpacks to " + std::to_string(got) + " bytes, not " + std::to_string(size));
  return size ? sink(bytes) : Status();
}

/// Checks that the bytes are one frame and no more. It visits every block, so a large frame would be read for it.
Status check_whole(ByteSpan frame) {
  const std::size_t whole = ::ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (::ZSTD_isError(whole)) return fail(Errc::corrupt, "no whole zstd frame");
  if (whole != frame.size())
    return fail(Errc::corrupt,
                "a zstd frame of " + std::to_string(whole) + " bytes in " + std::to_string(frame.size()));
  return {};
}

Status unpack_in_parts(ByteSpan frame, std::size_t size, const ByteSource::Sink& sink,
                       const std::function<void(ByteSpan)>& read) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&::ZSTD_freeDCtx)> context(::ZSTD_createDCtx(), &::ZSTD_freeDCtx);
  if (!context) throw std::bad_alloc();
  ::ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kWindowLog);
  ByteBuffer part(std::size_t{1} << 20);
  ZSTD_inBuffer in{frame.data(), frame.size(), 0};
  std::size_t got = 0, left = 1, forgotten = 0;
  while (left != 0) {
    ZSTD_outBuffer out{part.data(), part.size(), 0};
    left = ::ZSTD_decompressStream(context.get(), &out, &in);
    if (::ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge) {
      WEFT_CHECK(check_whole(frame));
      return unpack_at_once(frame, size, sink);  // nothing was unpacked yet
    }
    if (::ZSTD_isError(left)) return failure(Errc::corrupt, left);
    if (left != 0 && out.pos == 0 && in.pos == in.size) return fail(Errc::corrupt, "no whole zstd frame");
    got += out.pos;
    if (read && (in.pos - forgotten >= kForgotten || left == 0)) {
      read(frame.subspan(forgotten, in.pos - forgotten));
      forgotten = in.pos;
    }
    if (got > size) break;
    if (out.pos) WEFT_CHECK(sink(ByteSpan(part.data(), out.pos)));
  }
  if (got != size)
    return fail(Errc::corrupt, "unpacks to " + std::to_string(got) + " bytes, not " + std::to_string(size));
  if (in.pos != in.size)
    return fail(Errc::corrupt, "a zstd frame of " + std::to_string(in.pos) + " bytes in " + std::to_string(in.size));
  return {};
}

}  // namespace

Status pack_zstd(const ByteSource& content, const ByteSource::Sink& sink) {
  Packer packer(content.size(), sink);
  WEFT_CHECK(content.produce([&](ByteSpan part) { return packer.add(part); }));
  return packer.finish();
}

Status unpack_zstd(ByteSpan frame, std::size_t size, const ByteSource::Sink& sink,
                   const std::function<void(ByteSpan)>& read) {
  const bool is_large = size > std::size_t{1} << kWindowLog;
  if (!is_large) WEFT_CHECK(check_whole(frame));
  const unsigned long long stated = ::ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (stated == ZSTD_CONTENTSIZE_UNKNOWN || stated == ZSTD_CONTENTSIZE_ERROR)
    return fail(Errc::corrupt, "a zstd frame that does not state its size");
  if (stated != size)
    return fail(Errc::corrupt,
                "a zstd frame of " + std::to_string(stated) + " bytes, the header says " + std::to_string(size));
  if (!is_large) return unpack_at_once(frame, size, sink);
  return unpack_in_parts(frame, size, sink, read);
}

}  // namespace weft::formats
