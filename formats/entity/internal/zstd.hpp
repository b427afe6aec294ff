// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/byte_source.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <functional>

namespace weft::formats {

/// One zstd frame (RFC 8878) that states its content's size, in parts. The same bytes from one version of the library,
/// however the content came in parts. Memory: about 5 MiB.
Status pack_zstd(const ByteSource& content, const ByteSource::Sink& sink);
/// Unpacks exactly one frame that states `size` bytes, in parts; where a frame's window is larger than 8 MiB, at once.
/// `read`: told of each part of the frame that is not needed any more.
/// @error corrupt: not one whole frame, another size, damaged
Status unpack_zstd(ByteSpan frame, std::size_t size, const ByteSource::Sink& sink,
                   const std::function<void(ByteSpan)>& read = {});

}  // namespace weft::formats
