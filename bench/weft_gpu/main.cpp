// SPDX-License-Identifier: Apache-2.0
// weft-bench-gpu: what `weft bench gpu` starts. Each figure stands beside its floor, which follows from the device's
// copy bandwidth and its peak of multiply-adds, both measured in this run, and beside PyTorch's on CUDA where there is
// one (bench/peers/torch_gpu.py).

#include "bench/weft_gpu/gpu_bench.hpp"
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

namespace weft::bench {
namespace {

struct Section {
  const char* name;
  void (*measure)(GpuBench&);
};
constexpr std::array<Section, 9> kSections{{{"gemv", gpu_gemv},
                                            {"gemm", gpu_gemm},
                                            {"products", gpu_products},
                                            {"codes", gpu_codes},
                                            {"gated", gpu_gated},
                                            {"convolutions", gpu_convolutions},
                                            {"ticks", gpu_ticks},
                                            {"mlp", gpu_mlp},
                                            {"decoding", gpu_decoding}}};

bool is_named(const std::vector<std::string>& names, const char* section) {
  return std::find(names.begin(), names.end(), section) != names.end();
}

/// Refuses sections that are none, with a list of those that are.
bool check_sections(const std::vector<std::string>& names) {
  for (const std::string& each : names) {
    if (std::any_of(kSections.begin(), kSections.end(), [&](const Section& s) { return each == s.name; })) continue;
    std::string known;
    for (std::size_t i = 0; i < kSections.size(); ++i)
      known += (i == 0 ? "" : i + 1 == kSections.size() ? " or " : ", ") + std::string(kSections[i].name);
    std::fprintf(stderr, "weft: error: --only %s: expected %s\n", each.c_str(), known.c_str());
    return false;
  }
  return true;
}

bool read_arguments(int argc, char** argv, GpuRequest& request) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0)
      request.settings.json = true;
    else if (std::strcmp(argv[i], "--quick") == 0)
      request.settings.quick = true;
    else if (std::strcmp(argv[i], "--no-peer") == 0)
      request.has_peer = false;
    else if (std::strcmp(argv[i], "--device") == 0 && i + 1 < argc)
      request.device = argv[++i];
    else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc)
      request.only.push_back(argv[++i]);
    else if (std::strcmp(argv[i], "gpu") != 0) {  // `weft bench gpu` names the suite
      std::fprintf(stderr, "weft: error: %s: expected --json, --quick, --no-peer, --device D or --only SECTION\n",
                   argv[i]);
      return false;
    }
  }
  return check_sections(request.only);
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  using namespace weft::bench;
  GpuRequest request;
  if (!read_arguments(argc, argv, request)) return 2;
  Rows rows(request.settings);
  GpuBench bench(rows, request);
  gpu_copy(bench);
  gpu_peak(bench);
  for (const Section& section : kSections)
    if (request.only.empty() || is_named(request.only, section.name)) section.measure(bench);
  rows.finish();
  return 0;
}
