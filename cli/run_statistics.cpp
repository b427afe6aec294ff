// SPDX-License-Identifier: Apache-2.0

#include "cli/run_statistics.hpp"

#include "core/option_table.hpp"

#include <utility>

namespace weft::cli {
namespace {

/// A statistic is an option that is only written.
template <class Section, class T>
typename OptionTable<Section>::Field statistic(std::string_view key, T Section::*member, std::string_view unit,
                                               std::string_view meaning) {
  return option(key, member, {.is_always_written = true, .unit = unit, .meaning = meaning});
}

const OptionTable<learning::StreamProgress>& progress_table() {
  using S = learning::StreamProgress;
  static const OptionTable<S> table({
      statistic("samples", &S::samples, "samples", "seen so far"),
      statistic("total", &S::total, "samples", "of the whole stream"),
      statistic("epoch", &S::epoch, "epochs", "finished"),
      statistic("prequential_accuracy", &S::prequential_accuracy, "share", "of hits in the last `window` samples"),
      statistic("overall_accuracy", &S::overall_accuracy, "share", "of hits in all samples"),
      statistic("mean_loss", &S::mean_loss, "nats", "mean over the last `window` samples"),
  });
  return table;
}

const OptionTable<RunStatistics>& run_table() {
  using S = RunStatistics;
  static const OptionTable<S> table([] {
    std::vector<OptionTable<S>::Field> fields{
        statistic("ticks", &S::ticks, "ticks", "committed"),
        statistic("ticks_per_second", &S::ticks_per_second, "1/s", "of ticks, with all that is done beside them"),
        statistic("samples_per_second", &S::samples_per_second, "1/s", "of samples"),
    };
    append_options(fields, &S::progress, progress_table());
    return fields;
  }());
  return table;
}

}  // namespace

Json to_json(const RunStatistics& statistics) {
  Json out = run_table().write(statistics);
  if (!statistics.progress.has_accuracy) out["prequential_accuracy"] = out["overall_accuracy"] = nullptr;
  out["clock"] = statistics.clock ? to_json(*statistics.clock) : Json();
  return out;
}
const std::vector<OptionRow>& statistics_rows() { return run_table().rows(); }

}  // namespace weft::cli
