// SPDX-License-Identifier: Apache-2.0
// gpu_gpu_bench [DEVICE] [--quick]: the measurements of bench/gpu/measurements.hpp, one JSON object a line. Links
// nothing but Weft's lower modules, so that it can be carried to a machine with a GPU.

#include "bench/gpu/measurements.hpp"
#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  using namespace weft;
  std::string selector = "vulkan";
  bool quick = false;
  for (int i = 1; i < argc; ++i)
    if (std::strcmp(argv[i], "--quick") == 0)
      quick = true;
    else
      selector = argv[i];
  const auto run = [&]() -> Status {
    WEFT_TRY(const auto device, gpu::Device::open(selector));
    std::fprintf(stderr, "%s, %s, shaders %s\n", device->info().name.c_str(), device->info().driver.c_str(),
                 device->self_test().variant.c_str());
    return bench::measure_gpu(*device, quick, [](const bench::GpuMeasurement& f) {
      std::printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"", f.name.c_str(), f.value, f.unit.c_str());
      if (f.other) std::printf(", \"beside\": \"%s\", \"other\": %.6g", f.beside.c_str(), *f.other);
      if (f.ratio) std::printf(", \"ratio\": %.4f", *f.ratio);
      if (f.wanted) std::printf(", \"wanted\": %.2f", *f.wanted);
      std::printf("}\n");
      std::fflush(stdout);
    });
  };
  const Status status = run();
  if (status) return 0;
  std::fprintf(stderr, "weft: error: %s\n", status.error().text().c_str());
  return exit_code(status.error().code());
}
