// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::numeric {

/// Rule that derives a group's scale from its weights (docs/numerics.md, section 8).
enum class ScaleRule {
  none,     ///< codes stand for the weights themselves
  largest,  ///< max |w| / the largest number
  range,    ///< (max(0, w) - min(0, w)) / the largest number, with a zero point
  mean      ///< mean |w|
};

}  // namespace weft::numeric
