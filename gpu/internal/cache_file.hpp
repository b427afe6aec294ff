// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/context.hpp"

#include <string>
#include <vector>

namespace weft::gpu {

/// The file that a device's compiled pipelines are kept in: named by its UUID, the driver's version and our own. ""
/// when `folder` is "-" or there is no home to keep it in.
std::string cache_path(const Context& context, const std::string& folder);

/// The driver's data from the cache file; empty when there is no file, or when it is of another device, driver or
/// format, truncated or changed, which is logged.
///   bytes: "WEFTPIPE", u32 form, u32 zero, 16 bytes device UUID, u32 driver version, u32 zero, u64 length, 16 bytes
///   XXH3-128 of the data, data
std::vector<char> read_cache(const Context& context, const std::string& path);
/// Writes beside and renames. Failing is logged, nothing more: it is a cache.
void write_cache(const Context& context, const std::string& path, const std::vector<char>& data);

}  // namespace weft::gpu
