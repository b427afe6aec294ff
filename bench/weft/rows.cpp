// SPDX-License-Identifier: Apache-2.0

#include "bench/weft/rows.hpp"

#include "core/json.hpp"

#include <algorithm>
#include <cstdio>

namespace weft::bench {
namespace {

std::string show(const std::optional<double>& value) {
  if (!value) return "-";
  char text[32];
  std::snprintf(text, sizeof text,
                *value >= 1000   ? "%.0f"
                : *value >= 10   ? "%.1f"
                : *value >= 0.01 ? "%.2f"
                                 : "%.1e",
                *value);
  return text;
}

std::string show(const std::optional<Asked>& asked) {
  return asked ? (asked->is_of_ratio ? ">=" : "<=") + show(asked->bound) : "-";
}

Json maybe(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

void Rows::add(Row row) {
  if (settings_.json) {
    Json line{{"name", row.name},
              {"weft", row.weft},
              {"peer", row.peer.empty() ? Json() : Json(row.peer)},
              {"peer_value", maybe(row.peer_value)},
              {"ratio", maybe(row.ratio)},
              {"floor", maybe(row.floor)},
              {"unit", row.unit}};
    if (row.ratio_range) line["ratio_range"] = {row.ratio_range->first, row.ratio_range->second};
    if (row.asked) line[row.asked->is_of_ratio ? "least_ratio" : "most"] = row.asked->bound;
    std::printf("%s\n", line.dump(Json::Order::as_set).c_str());
    std::fflush(stdout);
  }
  rows_.push_back(std::move(row));
}

void Rows::finish() {
  if (settings_.json) return;
  std::size_t name = 4, peer = 4;
  for (const Row& row : rows_) {
    name = std::max(name, row.name.size());
    peer = std::max(peer, row.peer.size());
  }
  // Terminals are narrow: this column is there where it says something.
  const bool asks = std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.asked.has_value(); });
  const auto line = [&](const std::string& first, const std::string& weft, const std::string& who,
                        const std::string& value, const std::string& ratio, const std::string& floor,
                        const std::string& asked, const std::string& unit) {
    std::printf("%-*s  %9s  %-*s  %9s  %6s  %9s  ", static_cast<int>(name), first.c_str(), weft.c_str(),
                static_cast<int>(peer), who.c_str(), value.c_str(), ratio.c_str(), floor.c_str());
    if (asks) std::printf("%6s  ", asked.c_str());
    std::printf("%s\n", unit.c_str());
  };
  line("name", "weft", "peer", "value", "ratio", "floor", "asked", "unit");
  for (const Row& row : rows_)
    line(row.name, show(row.weft), row.peer.empty() ? "-" : row.peer, show(row.peer_value), show(row.ratio),
         show(row.floor), show(row.asked), row.unit);
  std::printf(
      "\nratio: above 1 Weft is better. floor: the machine's best in the same run (least time or highest rate).\n");
  if (asks) std::printf("asked: of the ratio at least, of the figure at most.\n");
}

}  // namespace weft::bench
