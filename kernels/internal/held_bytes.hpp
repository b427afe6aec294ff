// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

namespace weft::kernels::detail {

/// Bytes of rows that a product of float32 holds at once while weights pass: the second-level cache of a core, as the
/// system tells its size, 512 KiB where it does not. The more rows, the less often weights come from further away.
/// It affects speed alone: no sum's order depends on it.
/// @thread any
std::size_t held_bytes() noexcept;
/// The same of a cache of `second_level` bytes; 0: unknown.
std::size_t held_bytes_of(std::size_t second_level) noexcept;
/// Takes the cache for one of so many bytes, for tests; 0: as it is. @thread none may run a product meanwhile
void set_second_level_cache(std::size_t bytes) noexcept;

}  // namespace weft::kernels::detail
