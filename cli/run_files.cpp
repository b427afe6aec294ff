// SPDX-License-Identifier: Apache-2.0

#include "cli/run_files.hpp"

#include "cli/output.hpp"
#include "cli/text_format.hpp"

#include "storage/file_system.hpp"

#include <utility>
#include <vector>

namespace weft::cli {

Result<std::optional<std::uint64_t>> resume(const RunRequest& request, storage::CheckpointStore& store,
                                            RunState& state) {
  if (!request.storage.resume) {
    const auto keys = store.keys();
    if (keys.empty()) return std::optional<std::uint64_t>();
    return fail(Errc::invalid_argument, "--checkpoint " + request.storage.checkpoint + ": holds a run that stood at " +
                                            to_string(keys.back()) +
                                            "; give --resume to go on with it, or remove the directory");
  }
  WEFT_TRY(const auto found, store.latest());
  if (!found) return std::optional<std::uint64_t>();
  WEFT_TRY(const auto bytes, found->file(kRunFile));
  WEFT_TRY(const auto file, formats::decode_entity(bytes, found->path + "/" + kRunFile));
  if (auto resumed = state.resume(file); !resumed) return fail(std::move(resumed).error().within(found->path));
  return std::optional<std::uint64_t>(state.stream().progress().samples);
}

static std::vector<NamedFile> outputs_of(const RunRequest& request) {
  std::vector<NamedFile> outputs;
  for (const auto& [role, path] :
       {std::pair("--save", &request.storage.save), std::pair("--matrix", &request.storage.matrix),
        std::pair("--log", &request.monitor.log), std::pair("--socket", &request.monitor.socket),
        std::pair("--state", &request.storage.state), std::pair("--checkpoint", &request.storage.checkpoint),
        std::pair("--logdir", &request.monitor.logdir)})
    if (!path->empty()) outputs.push_back({role, *path});
  return outputs;
}

Status check_read(const RunRequest& request, const learning::Dataset& data) {
  std::vector<NamedFile> inputs;
  for (const learning::SourceFile& file : data.files) inputs.push_back({"data file", file.path});
  WEFT_CHECK(check_distinct(outputs_of(request), inputs));
  return request.monitor.log.empty() ? Status() : check_log({"--log", request.monitor.log}, inputs);
}

Status check_files(const RunRequest& request, const RunSetup& setup) {
  std::vector<NamedFile> inputs{{"NETWORK", request.sample.file},
                                {request.sample.data.empty() ? "stream.csv" : "--data", setup.csv_path}};
  if (!setup.validation_path.empty()) inputs.push_back({"--validation", setup.validation_path});
  if (!setup.test_path.empty()) inputs.push_back({"--test", setup.test_path});
  WEFT_CHECK(check_distinct(outputs_of(request), inputs));
  if (!request.monitor.socket.empty()) WEFT_CHECK(check_socket(request.monitor.socket));
  if (!request.storage.matrix.empty()) WEFT_CHECK(check_output({"--matrix", request.storage.matrix}, inputs));
  return request.storage.save.empty() ? Status() : check_output({"--save", request.storage.save}, inputs);
}

// Found out before the work, where there are many layers.
Status check_savable(const RunRequest& request, RunState& state) {
  constexpr std::size_t kMany = 20000;
  const bool is_checkpoint = request.storage.save.empty();
  const std::string& path = is_checkpoint ? request.storage.checkpoint : request.storage.save;
  const std::size_t layers = state.mesh().spec().layers.size();
  if (path.empty() || layers < kMany) return {};
  const auto snapshot = state.snapshot_for(path);
  if (snapshot) return {};
  const std::string flag = is_checkpoint ? "--checkpoint" : "--save";
  return fail(snapshot.error().code(), flag + " " + path + ": " + snapshot.error().text() + ": " + grouped(layers) +
                                           " layers are more than the header of an .entity file describes; run it "
                                           "without " +
                                           flag + ", or with fewer layers");
}

}  // namespace weft::cli
