// SPDX-License-Identifier: Apache-2.0
// weft-bench: what `weft bench` starts. The rivals are linked here, so that `weft` needs none of them.

#include "bench/weft/rows.hpp"
#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  using namespace weft::bench;
  Settings settings;
  const char* suite = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0)
      settings.json = true;
    else if (std::strcmp(argv[i], "--quick") == 0)
      settings.quick = true;
    else if (std::strcmp(argv[i], "--openblas-only") == 0)
      settings.openblas_only = true;
    else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc)
      settings.only = argv[++i];
    else if (std::strcmp(argv[i], "--steps-of") == 0 && i + 1 < argc)
      return serve_steps(argv[i + 1]);
    else
      suite = argv[i];
  }
  struct Suite {
    const char* name;
    void (*run)(Rows&);
  };
  for (const Suite& each : {Suite{"kernels", bench_kernels}, Suite{"tick", bench_tick}, Suite{"mesh", bench_mesh},
                            Suite{"clock", bench_clock}, Suite{"learn", bench_learn}, Suite{"dtypes", bench_dtypes},
                            Suite{"layers", bench_layers}}) {
    if (suite == nullptr || std::strcmp(suite, each.name) != 0) continue;
    Rows rows(settings);
    each.run(rows);
    rows.finish();
    return 0;
  }
  std::fprintf(stderr,
               "weft: error: weft-bench kernels|tick|mesh|clock|learn|dtypes|layers [--json] [--quick] [--only "
               "NETWORK|unequal|busy]\n");
  return 2;
}
