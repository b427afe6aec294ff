// SPDX-License-Identifier: Apache-2.0

#include "cli/verb.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

namespace weft::cli {
namespace {

/// `weft-bench`, beside this program: it links the libraries it measures against, which `weft` has no use for.
Status hand_over(const std::string& suite, bool json, bool quick) {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::string program = suite == "gpu" ? "weft-bench-gpu" : "weft-bench";
  const std::string path = (failed ? std::filesystem::path(program) : self.parent_path() / program).string();
  if (access(path.c_str(), X_OK) != 0)
    return fail(Errc::unsupported, path + ": not there; build with -DWEFT_BENCH=ON to have it");
  std::vector<std::string> words{path, suite};
  if (json) words.emplace_back("--json");
  if (quick) words.emplace_back("--quick");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(nullptr);
  execv(path.c_str(), arguments.data());
  return fail(Errc::internal, path + ": cannot be started: " + std::strerror(errno));
}

}  // namespace

Verb add_bench(CLI::App& program) {
  CLI::App* app = add_verb(program, "bench", "Measure Weft against the machine and against its rivals, in one run");
  struct Request {
    std::string suite;
    bool json = false, quick = false;
  };
  auto request = std::make_shared<Request>();
  add_argument(*app, "SUITE", request->suite, "kernels, tick, mesh, clock, learn, dtypes, layers or gpu")
      .required()
      .member_of({"kernels", "tick", "mesh", "clock", "learn", "dtypes", "layers", "gpu"});
  add_flag(*app, "json", request->json, "One JSON object a row on stdout");
  add_flag(*app, "quick", request->quick, "Fewer sizes and rounds: a look, not a measurement");
  return {app, [request] { return hand_over(request->suite, request->json, request->quick); }};
}

}  // namespace weft::cli
