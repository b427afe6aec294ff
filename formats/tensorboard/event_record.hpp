// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weft::formats {

/// One number of a run at one step, under a name.
struct TaggedScalar {
  std::string_view tag;
  float value = 0;
};

/// First record of a TensorBoard event file: the version of its format. `wall_time`: seconds since 1970.
std::string event_version_record(double wall_time);
/// A record of the scalars of one step, as any of the file's later ones (docs/formats/tensorboard.md).
std::string event_scalars_record(double wall_time, std::int64_t step, std::span<const TaggedScalar> scalars);

}  // namespace weft::formats
