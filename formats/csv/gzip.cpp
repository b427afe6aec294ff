// SPDX-License-Identifier: Apache-2.0

#include "formats/csv/gzip.hpp"

#include <zlib.h>

#include <algorithm>

namespace weft::formats {
namespace {

class Inflater {
 public:
  Inflater() { is_ready_ = ::inflateInit2(&stream, MAX_WBITS + 16) == Z_OK; }
  ~Inflater() {
    if (is_ready_) ::inflateEnd(&stream);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  bool is_ready() const { return is_ready_; }
  z_stream stream{};

 private:
  bool is_ready_;
};

}  // namespace

bool is_gzip(ByteSpan bytes) noexcept {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B};
}

Result<std::string> gunzip(ByteSpan bytes, std::size_t max_bytes, std::string_view source_name) {
  const std::string source(source_name);
  Inflater inflater;
  if (!inflater.is_ready()) return fail(Errc::internal, source + ": zlib did not start");
  z_stream& stream = inflater.stream;
  std::string text;
  for (;;) {
    // zlib counts in 32 bits, so long inputs and outputs go through in pieces.
    const std::size_t given = std::min<std::size_t>(bytes.size(), std::size_t{1} << 30);
    // One byte past the limit tells "as long as the limit" from "longer".
    const std::size_t capacity = std::min(std::max<std::size_t>(text.size(), 65536), max_bytes - text.size()) + 1;
    const std::size_t before = text.size();
    text.resize(before + std::min<std::size_t>(capacity, std::size_t{1} << 30));
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(given);
    stream.next_out = reinterpret_cast<Bytef*>(text.data() + before);
    stream.avail_out = static_cast<uInt>(text.size() - before);
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    text.resize(text.size() - stream.avail_out);
    bytes = bytes.subspan(given - stream.avail_in);
    if (text.size() > max_bytes)
      return fail(Errc::too_large, source + ": unpacks to more than " + std::to_string(max_bytes) + " bytes");
    if (status == Z_STREAM_END) {
      if (bytes.empty()) return text;
      if (!is_gzip(bytes)) return fail(Errc::corrupt, source + ": bytes after the end of the gzip data");
      if (::inflateReset(&stream) != Z_OK) return fail(Errc::internal, source + ": zlib did not restart");
    } else if (status == Z_BUF_ERROR || (status == Z_OK && bytes.empty() && stream.avail_out != 0)) {
      return fail(Errc::corrupt, source + ": gzip data is cut short");
    } else if (status != Z_OK) {
      return fail(Errc::corrupt, source + ": damaged gzip data" + (stream.msg ? std::string(": ") + stream.msg : ""));
    }
  }
}

}  // namespace weft::formats
