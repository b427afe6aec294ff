// SPDX-License-Identifier: Apache-2.0
// Calls that weft.mjs has beside those of the C ABI: files of the module, and replays of what an agent wrote.

#include "capi/internal/arguments.hpp"
#include "capi/internal/call.hpp"

#include "agent/replay.hpp"

#include "core/json.hpp"

#include "bindings/web/single/files.hpp"
#include <cstdint>
#include <limits>
#include <string>

namespace weft::web {
namespace {

constexpr std::uint64_t kNoTick = std::numeric_limits<std::uint64_t>::max();

Json replayed(const std::string& directory, agent::Replay& replay) {
  const storage::JournalFindings& findings = replay.findings();
  std::vector<std::string> damages = findings.damages;
  damages.insert(damages.end(), replay.missing().begin(), replay.missing().end());
  return {{"directory", directory},
          {"fromTick", replay.start().tick},
          {"tick", replay.tick()},
          {"records", replay.records()},
          {"compared", replay.compared()},
          {"stateHash", to_string(replay.replayable().hash())},
          {"tornBytes", findings.torn_bytes},
          {"damages", damages}};
}

// The text that a call gave last, for JavaScript to copy.
std::string last_text;

}  // namespace
}  // namespace weft::web

using namespace weft;
using namespace weft::capi;

extern "C" {

weft_status weft_web_put(const char* path, const unsigned char* bytes, std::size_t count) {
  return guarded([&]() -> Outcome {
    web::files().put(path, {reinterpret_cast<const std::byte*>(bytes), count});
    return {};
  });
}

weft_status weft_web_get(const char* path, char* buffer, std::size_t capacity, std::size_t* out_needed) {
  return guarded([&]() -> Outcome {
    WEFT_TRY(const ByteBuffer bytes, web::files().read(path, std::numeric_limits<std::size_t>::max()));
    *out_needed = bytes.size();
    if (!buffer) return {};
    if (bytes.size() > capacity) return report(WEFT_TOO_SMALL, path);
    std::copy_n(reinterpret_cast<const char*>(bytes.data()), bytes.size(), buffer);
    return {};
  });
}

void weft_web_forget(const char* directory) { web::files().forget(directory); }

/* JSON: the paths of all files below a directory. */
const char* weft_web_list(const char* directory) {
  web::last_text = Json(web::files().below(directory)).dump();
  return web::last_text.c_str();
}

/* Replays an agent's directory from the newest checkpoint at or before `from`, or from the oldest, to `until` or the
   end. *out_text: JSON of where it came to. */
weft_status weft_web_replay(const char* directory, int verifies, std::uint64_t from, std::uint64_t until,
                            const char** out_text) {
  return guarded([&]() -> Outcome {
    agent::ReplayOptions options;
    if (from != web::kNoTick) options.from = from;
    options.verifies = verifies != 0;
    options.mesh.threads = 1;
    WEFT_TRY(agent::Replay replay, agent::Replay::open(web::files(), directory, std::move(options)));
    if (until != web::kNoTick && until < replay.tick())
      return fail(Errc::invalid_argument, "until tick " + std::to_string(until) + ": the run begins at tick " +
                                              std::to_string(replay.tick()) + " here");
    WEFT_CHECK(until == web::kNoTick ? replay.run() : replay.run(until));
    web::last_text = web::replayed(directory, replay).dump();
    *out_text = web::last_text.c_str();
    return {};
  });
}

}  // extern "C"
