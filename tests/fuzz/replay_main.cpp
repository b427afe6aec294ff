// SPDX-License-Identifier: Apache-2.0
// Runs each file of the folders given through the fuzz target, and a few mangled forms of each: the regression test of
// what fuzzing has found, for compilers without libFuzzer.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

void run(const Bytes& bytes) {
  // A copy of the exact size, so that a sanitizer sees a read past the end.
  const Bytes exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

void run_with_neighbours(const Bytes& bytes) {
  run(bytes);
  const std::size_t step = std::max<std::size_t>(1, bytes.size() / 64);
  for (std::size_t i = 0; i < bytes.size(); i += step) {
    run(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(i)));
    Bytes flipped = bytes;
    flipped[i] ^= static_cast<std::uint8_t>(1u << (i % 8));
    run(flipped);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i]))
      if (entry.is_regular_file()) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    for (const auto& path : paths) {
      std::ifstream file(path, std::ios::binary);
      const Bytes bytes{std::istreambuf_iterator<char>(file), {}};
      std::printf("%s\n", path.filename().c_str());
      std::fflush(stdout);  // so that the last line names the file that crashed
      run_with_neighbours(bytes);
      ++count;
    }
  }
  std::printf("%zu files replayed\n", count);
  return count == 0 ? 1 : 0;
}
