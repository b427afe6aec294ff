// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::bench {

/// Bound of a figure: a least ratio, or a largest value of the figure itself.
struct Asked {
  double bound = 0;
  bool is_of_ratio = true;
};

/// One measured figure, beside a rival's or the machine's in the same run.
struct Row {
  std::string name;
  double weft = 0;
  std::string peer;  // empty: nothing to compare with
  std::optional<double> peer_value;
  std::optional<double> ratio;  // above 1: Weft is better
  std::optional<double> floor;  // what the machine allows at best: the least time, or the highest rate
  std::string unit;
  std::optional<std::pair<double, double>> ratio_range = std::nullopt;  // quartiles over the rounds
  std::optional<Asked> asked = std::nullopt;
};

struct Settings {
  bool json = false, quick = false;
  std::string only;            // layers: this network alone; tick: unequal, mesh: busy; dtypes: part of a name
  bool openblas_only = false;  // kernels, in a child process: only the rows that depend on OpenBLAS' choice of core
};

/// Takes rows: as JSON lines at once, or as a table at the end.
class Rows {
 public:
  explicit Rows(Settings settings) : settings_(settings) {}
  void add(Row row);
  void finish();
  /// Rows added so far.
  std::vector<Row> take() { return std::move(rows_); }
  const Settings& settings() const noexcept { return settings_; }
  /// True when `name` holds the text that settings are limited to.
  bool is_wanted(const std::string& name) const { return name.find(settings_.only) != std::string::npos; }

 private:
  Settings settings_;
  std::vector<Row> rows_;
};

void bench_kernels(Rows& rows);
void bench_tick(Rows& rows);
void bench_mesh(Rows& rows);
void bench_clock(Rows& rows);
void bench_learn(Rows& rows);
void bench_dtypes(Rows& rows);
void bench_layers(Rows& rows);
/// Weft's part of bench_layers: does steps of a network as standard input asks.
int serve_steps(const std::string& network);

}  // namespace weft::bench
