// SPDX-License-Identifier: Apache-2.0

#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"
#include "kernels/linear.hpp"

#include "core/json.hpp"
#include "core/philox.hpp"

#include <unistd.h>

#include "bench/peers/blas.hpp"
#include "bench/peers/measure.hpp"
#include "bench/weft/rows.hpp"
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

namespace weft::bench {
namespace {

using namespace kernels;

constexpr const char* kBetterCore = "SkylakeX";

struct Operands {
  Operands(std::size_t b, std::size_t o, std::size_t i)
      : batch(b), out(o), in(i), rows(o * i), panels(panels_size(o, i)), x(b * i), y(b * o) {
    for (HugeArray* array : {&rows, &x}) {
      RandomStream random(1, array->size(), RandomPurpose::test);
      for (std::size_t j = 0; j < array->size(); ++j) array->data()[j] = random.next_uniform() - 0.5f;
    }
    pack_panels({rows.data(), o, i, i}, {panels.data(), o, i});
  }
  std::size_t batch, out, in;
  HugeArray rows, panels, x, y;
};

/// One shape against every rival, one thread each; times in microseconds.
void race_linear(Rows& rows, const std::string& name, std::size_t batch, std::size_t size) {
  Operands m(batch, size, size);
  std::vector<Contestant> all{{"weft", [&m] {
                                 linear({m.panels.data(), m.out, m.in}, nullptr, {m.x.data(), m.batch, m.in, m.in},
                                        Activation::linear, {}, {m.y.data(), m.batch, m.out, m.out});
                               }}};
  double burst = 0;
  volatile float sink = 0;
  // A product over a batch is bound by its multiply-adds, one over a row by reading the weights.
  if (batch > 1)
    all.push_back({"floor", [&burst] { burst = fma_burst(); }});
  else
    all.push_back({"floor", [&] { sink = read_all(m.panels.data(), m.panels.size()); }});
  if (has_openblas())
    all.push_back({"openblas", [&m] { openblas_linear(m.batch, m.out, m.in, m.rows.data(), m.x.data(), m.y.data()); }});
  std::unique_ptr<OnednnLinear> onednn;
  if (has_onednn() && !rows.settings().openblas_only) {
    onednn = std::make_unique<OnednnLinear>(m.batch, m.out, m.in, m.rows.data(), m.x.data(), m.y.data());
    all.push_back({"onednn", [&onednn] { onednn->run(); }});
  }
  const auto seconds = race(all, rows.settings().quick ? 5 : size > 1000 && batch > 1 ? 9 : 25);
  const double flops = 2.0 * static_cast<double>(batch) * static_cast<double>(size) * static_cast<double>(size);
  const double floor = batch > 1 ? flops / (burst / seconds[1]) : seconds[1];
  if (all.size() == 2) rows.add({name, seconds[0] * 1e6, "", {}, {}, floor * 1e6, "us"});
  for (std::size_t i = 2; i < all.size(); ++i)
    rows.add({name, seconds[0] * 1e6, all[i].name, seconds[i] * 1e6, seconds[i] / seconds[0], floor * 1e6, "us"});
  const double work = batch > 1 ? flops : static_cast<double>(m.panels.size() * sizeof(float));
  rows.add({name + "/rate", work / seconds[0] / 1e9, "", {}, {}, work / floor / 1e9, batch > 1 ? "GFLOP/s" : "GB/s"});
}

void race_all(Rows& rows) {
  const FlushSubnormals exact;
  const bool quick = rows.settings().quick;
  for (const std::size_t n : {64, 128, 256, 512, 1024, 2048, 4096})
    if (!quick || n == 64 || n == 1024) race_linear(rows, "gemv/" + std::to_string(n), 1, n);
  for (const std::size_t n : {256, 512, 1024, 2048})
    if (!quick || n == 256) race_linear(rows, "gemm/" + std::to_string(n), n, n);
}

/// OpenBLAS does not know every new CPU and then runs code for an older one, so it gets a second chance in a process of
/// its own, told which core to take it for.
std::map<std::string, Row> second_chance(bool quick) {
  std::map<std::string, Row> found;
  if (!has_openblas() || openblas_core() == kBetterCore || !is_supported(Isa::avx512)) return found;
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return found;
  self[length] = 0;
  const std::string command = "OPENBLAS_CORETYPE=" + std::string(kBetterCore) + " '" + self +
                              "' kernels --json --openblas-only" + (quick ? " --quick" : "");
  std::FILE* child = popen(command.c_str(), "r");
  if (!child) return found;
  char line[4096];
  while (std::fgets(line, sizeof line, child)) {
    const auto parsed = parse_json(line, "row");
    if (!parsed || !parsed->is_object()) continue;
    const Json& row = *parsed;
    if (row["peer"] != "openblas") continue;
    found[row["name"]] = {row["name"], row["weft"], "openblas", row["peer_value"], row["ratio"], row["floor"], "us"};
  }
  pclose(child);
  return found;
}

}  // namespace

void bench_kernels(Rows& rows) {
  if (rows.settings().openblas_only) return race_all(rows);
  const auto better = second_chance(rows.settings().quick);
  // Each row is of one run, so that its ratio stands: the run in which the rival did better.
  Settings silent = rows.settings();
  silent.json = false;
  Rows own(silent);
  race_all(own);
  for (Row row : own.take()) {
    const auto other = better.find(row.name);
    if (row.peer == "openblas" && other != better.end() && *other->second.ratio < *row.ratio) row = other->second;
    rows.add(std::move(row));
  }
}

}  // namespace weft::bench
