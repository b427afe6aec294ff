// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::numeric {

/// How the scale of a group of weights follows from them (docs/numerics.md, section 8).
enum class ScaleRule {
  none,     ///< codes stand for the weights themselves
  largest,  ///< max |w| / the largest number
  range,    ///< (max(0, w) - min(0, w)) / the largest number, with a zero point
  mean      ///< mean |w|
};

}  // namespace weft::numeric
