// SPDX-License-Identifier: Apache-2.0

#include "cli/standard_streams.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

namespace weft::cli {

void secure_standard_streams() noexcept {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // The wrong way round, so that reading and writing are refused. The lowest free number is this one.
    const int access = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", access) != descriptor) _exit(5);
  }
  signal(SIGXFSZ, SIG_IGN);
}

bool stdout_is_written() noexcept { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

bool stdout_reader_is_gone() noexcept {
  pollfd polled{STDOUT_FILENO, POLLOUT, 0};
  return poll(&polled, 1, 0) == 1 && (polled.revents & POLLERR) != 0;
}

}  // namespace weft::cli
