// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"
#include "cli/model.hpp"
#include "cli/output.hpp"
#include "cli/setup.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "learning/sample_stream.hpp"

#include "mesh/memory/memory_estimate.hpp"

#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace weft::cli {
namespace {

struct PackRequest {
  std::string file, out;
  std::uint64_t max_memory = 0;
  bool plain = false, json = false;
};

/// Tensors are streamed; what is packed is kept, up to a bound, until it is written.
Status check_memory(const PackRequest& request, const Model& model) {
  constexpr std::uint64_t kKept = std::uint64_t{64} << 20, kLayer = 4096;
  mesh::MemoryEstimate estimate;
  if (!request.plain) estimate.add("packed tensors", std::min<std::uint64_t>(model.file_bytes, kKept));
  estimate.add("network", model.spec.layers.size() * kLayer);
  return mesh::check_memory("packing " + request.file, estimate, request.max_memory);
}

Status pack(const PackRequest& request) {
  WEFT_TRY(const Model model, read_model(request.file));
  WEFT_CHECK(check_output({"--output", request.out}, inputs_of(model)));
  if (!model.entity)
    return fail(Errc::invalid_argument,
                request.file + ": is a network without weights; weft run --save or weft morph makes an .entity file");
  const formats::EntityFile& file = *model.entity;
  WEFT_CHECK(check_memory(request, model));
  Json network = file.network();
  if (!model.spec.stream.empty()) {
    auto stream = learning::read_stream(model.spec.stream);
    if (!stream) return fail(std::move(stream).error().within(request.file));
    const bool is_relative = !std::filesystem::path(stream->csv).is_absolute();
    const auto way = path_from(request.out, path_within(model.folder, stream->csv));
    if (is_relative && way) network["stream"]["csv"] = *way;
  }
  const formats::EntityOptions options{request.plain ? formats::Packing::none : formats::Packing::zstd, &file.extra()};
  auto content = formats::entity_source(network, file.meta(), file.streamed(), options);
  WEFT_CHECK(file.intact());  // says more than what zeros were taken for
  WEFT_TRY(const ByteSource bytes, std::move(content));
  const Status written = storage::write_file_durably(storage::real_file_system(), request.out, bytes);
  WEFT_CHECK(file.intact());
  WEFT_CHECK(written);
  if (request.json)
    print_json({{"file", request.out},
                {"packed", !request.plain},
                {"file_bytes_before", model.file_bytes},
                {"file_bytes", bytes.size()}});
  else
    std::printf("%s: %s (was %s)\n", escaped(request.out).c_str(), byte_size(bytes.size()).c_str(),
                byte_size(model.file_bytes).c_str());
  return {};
}

}  // namespace

Verb add_pack(CLI::App& program) {
  CLI::App* app = add_verb(program, "pack", "Write an .entity file anew, with what it holds packed or unpacked");
  auto request = std::make_shared<PackRequest>();
  add_argument(*app, "FILE", request->file, "An .entity file, of Loom too").required();
  add_output(*app, request->out);
  add_flag(*app, "plain", request->plain, "Unpack instead");
  add_max_memory(*app, request->max_memory);
  add_flag(*app, "json", request->json, "One JSON object on stdout");
  return {app, [request] { return pack(*request); }};
}

}  // namespace weft::cli
