// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_statistics.hpp"

#include "core/byte_size.hpp"
#include "core/written_number.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace weft {
struct OptionRow;
}

namespace weft::cli {

/// "312", "4.21k", "98.2k", "1.25M": four characters and a unit.
std::string short_number(double value);
/// Like 12.50.
std::string two_digits(double value);
/// "96.1 %".
std::string percent(double share);
using weft::byte_size;
inline double in_seconds(std::chrono::nanoseconds length) { return std::chrono::duration<double>(length).count(); }
/// "0.04 ms", "12.3 ms", "2,345 ms".
std::string milliseconds(std::chrono::nanoseconds length);
/// Why some steps, or all, ran on the CPU although a device was asked for; empty when none did.
std::string why_on_cpu(const mesh::DeviceStatistics& statistics);
/// Device that computed: "cpu", "cpu: vulkan: no loader ...", "llvmpipe", "llvmpipe, 8 of 250 steps on the CPU: ...".
/// `statistics`: null where no device was asked for.
std::string where_it_ran(const mesh::DeviceStatistics* statistics);
/// An option's default in a table: "needed", "0.01", "the layer's own".
std::string default_text(const OptionRow& row);
/// "1,438".
std::string grouped(std::uint64_t value);

}  // namespace weft::cli
