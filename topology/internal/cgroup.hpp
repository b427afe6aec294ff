// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::topology::internal {

/// Text of a small file; nothing where it cannot be read.
std::optional<std::string> read_text(const std::filesystem::path& path);
/// Words between any of `separators`; empty ones are left out.
std::vector<std::string_view> split(std::string_view text, std::string_view separators);
/// A whole number and nothing else.
std::optional<std::int64_t> parse_int(std::string_view text);

/// Visits the control groups that bound a process, from the mount's root inwards, once for each hierarchy: version 2
/// always, version 1 where `controller` is mounted. Inside a container the path may be the host's and not exist here:
/// the walk then finds only the mount's own root, which is the container's group.
/// @param root        where the control group file systems are mounted ("/sys/fs/cgroup")
/// @param membership  text of /proc/self/cgroup
void each_control_group(const std::filesystem::path& root, std::string_view membership, std::string_view controller,
                        const std::function<void(const std::filesystem::path& group, int version)>& visit);

}  // namespace weft::topology::internal
