// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/plot_data.hpp"

#include <string>

namespace weft::cli {

/// A picture of its own, without scripts or fonts from elsewhere: the grid with its numbers, or the lines. Several
/// curves of a line are their mean, and one standard deviation to both sides as a band.
std::string plot_svg(const PlotData& data, const std::string& title);

}  // namespace weft::cli
