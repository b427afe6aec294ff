// SPDX-License-Identifier: Apache-2.0

#include "cli/device_report.hpp"

#include "cli/text_format.hpp"

#include <string>

namespace weft::cli {

Json device_json(const mesh::DeviceStatistics* statistics) {
  if (!statistics) return {{"name", "cpu"}};
  const std::string why = why_on_cpu(*statistics);
  return {{"name", statistics->device.empty() ? "cpu" : statistics->device},
          {"steps", statistics->device_steps},
          {"copy_steps", statistics->copy_steps},
          {"cpu_steps", statistics->host_steps},
          {"why_cpu", why.empty() ? Json() : Json(why)},
          {"replays", statistics->replays},
          {"faults", statistics->faults},
          {"restarts", statistics->restarts},
          {"last_fault", statistics->faults ? Json(statistics->last_fault) : Json()},
          {"bytes", statistics->device_bytes},
          {"cpu_cells", statistics->host_cells},
          {"why_cpu_cells", statistics->why_host_cells.empty() ? Json() : Json(statistics->why_host_cells)},
          {"exchanged_bytes", statistics->exchanged_bytes}};
}

}  // namespace weft::cli
