// SPDX-License-Identifier: Apache-2.0
// The program that the Python package planetbridging runs: one JSON document in, one out.

#include "bridge/stream.hpp"

#include "kernels/isa.hpp"

#include "core/log.hpp"
#include "core/printable.hpp"

#include <unistd.h>

#include "bindings/loom_stream/flags.hpp"
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

namespace weft::loom_stream {
namespace {

/// All of stdin. @error too_large, storage
Result<std::string> read_document() {
  std::string text;
  constexpr std::size_t kPart = std::size_t{1} << 16;
  while (true) {
    const std::size_t before = text.size();
    if (before > bridge::kMostPipeBytes)
      return fail(Errc::too_large, "stdin: more than " + std::to_string(bridge::kMostPipeBytes) + " bytes");
    if (text.capacity() - before < kPart) text.reserve(2 * text.capacity() + kPart);
    text.resize(before + kPart);
    const ssize_t taken = ::read(STDIN_FILENO, text.data() + before, kPart);
    text.resize(before + (taken > 0 ? static_cast<std::size_t>(taken) : 0));
    if (taken == 0) return text;
    if (taken < 0 && errno != EINTR) return fail(Errc::storage, "stdin cannot be read");
  }
}

Result<std::string> answer(const bridge::StreamFlags& flags) {
  WEFT_CHECK(kernels::check_isa_environment());
  WEFT_TRY(const std::string document, read_document());
  WEFT_TRY(const bridge::StreamRequest request, bridge::read_request(document, flags));
  WEFT_TRY(const auto samples, bridge::samples_of(request));
  WEFT_TRY(const bridge::StreamAnswer made, bridge::stream(request, samples));
  return bridge::write_answer(made);
}

Result<std::string> answer_or_failure(const bridge::StreamFlags& flags) {
  try {
    return answer(flags);
  } catch (const std::bad_alloc&) {
    return fail(Errc::too_large, "not enough memory");
  } catch (const std::exception& unforeseen) {
    return fail(Errc::internal, unforeseen.what());
  }
}

/// False: nobody has taken all of it.
bool write_line(const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fputc('\n', stdout) == '\n' &&
         std::fflush(stdout) == 0;
}

/// The client shows stderr where it is not empty: one sentence, no line of a log beside it.
int failed(const Error& error) {
  const std::string message = escaped(error.text());
  std::fprintf(stderr, "%s\n", message.c_str());
  (void)write_line(bridge::write_error(error.text()));
  return 1;
}

int run(std::span<char* const> words) {
  set_log_level(LogLevel::off);
  const auto line = read_command_line(words);
  if (!line) return failed(line.error());
  if (line->help) return write_line(help_text()) ? 0 : 1;
  const auto text = answer_or_failure(line->flags);
  if (!text) return failed(text.error());
  return write_line(*text) ? 0 : 1;
}

}  // namespace
}  // namespace weft::loom_stream

int main(int argc, char** argv) {
  return weft::loom_stream::run({argv + (argc > 0 ? 1 : 0), static_cast<std::size_t>(argc > 0 ? argc - 1 : 0)});
}
