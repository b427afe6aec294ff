// SPDX-License-Identifier: Apache-2.0
// weft replay FILE --model MODEL: texts of a request log, written again.

#include "cli/replay_texts.hpp"

#include "cli/json_line.hpp"
#include "cli/progress.hpp"
#include "cli/setup.hpp"
#include "cli/text_format.hpp"

#include "models/text_replay.hpp"

#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <vector>

namespace weft::cli {
namespace {

using models::TextRecord;
using Clock = std::chrono::steady_clock;

/// Lines of a log, numbered from 1. A last line without an end is one that is being written, or was torn.
struct Log {
  std::vector<TextRecord> records;
  std::vector<std::size_t> lines;  // of each record
  std::size_t torn = 0;            // bytes at the end
};

Result<Log> read_log(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{4} << 30;
  WEFT_TRY(const ByteBuffer bytes, storage::real_file_system().read_so_far(path, kMost));
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Log log;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) {
      log.torn = rest.size();
      break;
    }
    WEFT_TRY(auto record, models::read_text_record(rest.substr(0, end), path + ":" + std::to_string(line)));
    log.records.push_back(std::move(record));
    log.lines.push_back(line);
    rest.remove_prefix(end + 1);
  }
  return log;
}

}  // namespace

Status replay_request_log(const TextReplayRequest& request) {
  if (request.model.empty())
    return fail(Errc::invalid_argument, request.log + ": a request log needs --model, what is to write its texts");
  WEFT_TRY(const Log log, read_log(request.log));
  WEFT_CHECK(check_device(request.device));
  mesh::MeshOptions options;
  options.threads = request.threads;
  options.max_memory = request.max_memory;
  options.device = request.device;
  WEFT_TRY(const models::LanguageModel model,
           models::load_language_model(storage::real_file_system(), request.model, {}, options));
  const models::ModelDigest digest = models::digest_of(model);
  const auto others = static_cast<std::size_t>(std::count_if(
      log.records.begin(), log.records.end(), [&](const TextRecord& each) { return each.digest != digest; }));
  ProgressLine progress;
  models::TextReplayOptions with;
  with.max_memory = request.max_memory;
  with.watch = [&](std::size_t texts) {
    if (progress.is_due()) progress.show(grouped(texts) + " of " + grouped(log.records.size()) + " texts");
  };
  const auto begin = Clock::now();
  WEFT_TRY(const models::TextReplay made, models::replay_texts(model, log.records, with));
  progress.clear();
  const std::chrono::nanoseconds took = Clock::now() - begin;
  const auto place = [&](const models::TextReplay::Difference& of) { return log.lines[of.record]; };
  if (request.json) {
    Json differences = Json::array();
    for (const auto& each : made.differences) differences.push_back({{"line", place(each)}, {"what", each.what}});
    print_json({{"event", "done"},
                {"texts", made.texts},
                {"equal", made.texts - made.differences.size()},
                {"tokens", made.tokens},
                {"model_digest", to_string(digest.weights)},
                {"options_digest", to_string(digest.options)},
                {"of_other_digests", others},
                {"torn_bytes", log.torn},
                {"differences", std::move(differences)},
                {"seconds", std::chrono::duration<double>(took).count()}});
  } else {
    std::printf("texts       %s, %s tokens, written again in %s\n", grouped(made.texts).c_str(),
                grouped(made.tokens).c_str(), milliseconds(took).c_str());
    if (others > 0)
      std::printf("other       %s of them are of another model, vocabulary or template than %s\n",
                  grouped(others).c_str(), escaped(request.model).c_str());
    if (log.torn > 0) std::printf("torn        %s bytes at the end\n", grouped(log.torn).c_str());
    constexpr std::size_t kShown = 8;
    for (std::size_t i = 0; i < std::min(made.differences.size(), kShown); ++i)
      std::printf("differs     line %s: %s\n", grouped(place(made.differences[i])).c_str(),
                  made.differences[i].what.c_str());
    if (made.differences.size() > kShown)
      std::printf("            and %s more\n", grouped(made.differences.size() - kShown).c_str());
    if (made.differences.empty()) std::printf("compared    all equal: tokens, ends, state hashes\n");
  }
  if (made.differences.empty()) return {};
  return fail(Errc::differs, request.log + ": " + std::to_string(made.differences.size()) + " of " +
                                 std::to_string(made.texts) + " texts differ");
}

}  // namespace weft::cli
