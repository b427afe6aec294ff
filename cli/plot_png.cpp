// SPDX-License-Identifier: Apache-2.0

#include "cli/plot_png.hpp"

#include <sys/wait.h>

#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

extern char** environ;

namespace weft::cli {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
using TemporaryFile = std::unique_ptr<std::FILE, FileCloser>;

std::string content_of(std::FILE* file) {
  std::string text;
  std::array<char, 65536> part{};
  std::rewind(file);
  while (const std::size_t n = std::fread(part.data(), 1, part.size(), file)) text.append(part.data(), n);
  return text;
}

}  // namespace

// Files, not pipes: whoever ends first, nobody waits for the other.
Result<std::string> png_of(const std::string& svg) {
  const TemporaryFile in(std::tmpfile()), out(std::tmpfile()), errors(std::tmpfile());
  if (!in || !out || !errors || std::fwrite(svg.data(), 1, svg.size(), in.get()) != svg.size() ||
      std::fflush(in.get()) != 0)
    return fail(Errc::storage, std::string("plot: no temporary file can be written: ") + std::strerror(errno));
  std::rewind(in.get());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ::fileno(in.get()), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ::fileno(out.get()), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ::fileno(errors.get()), STDERR_FILENO);
  std::string program = "rsvg-convert", flag = "--format=png";
  std::array<char*, 3> arguments{program.data(), flag.data(), nullptr};
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT)
    return fail(Errc::unsupported,
                "-o: PNG is made by rsvg-convert (Debian: librsvg2-bin), which is not in PATH; "
                "install it, or give a name that ends in .svg");
  if (error != 0)
    return fail(Errc::unsupported, std::string("rsvg-convert cannot be started: ") + std::strerror(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::string png = content_of(out.get());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && png.starts_with("\x89PNG")) return png;
  std::string said = content_of(errors.get());
  while (said.ends_with('\n')) said.pop_back();
  return fail(Errc::storage, "rsvg-convert made no picture" + (said.empty() ? said : ": " + said));
}

}  // namespace weft::cli
