// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>

namespace weft::formats {

/// One zstd frame (RFC 8878) that states its content's size. The same bytes from one version of the library.
Result<ByteBuffer> pack_zstd(ByteSpan bytes);
/// Unpacks exactly one frame that states `size` bytes; nothing is allocated before that was checked.
/// @error corrupt: not one whole frame, another size, damaged
Result<ByteBuffer> unpack_zstd(ByteSpan frame, std::size_t size);

}  // namespace weft::formats
