// SPDX-License-Identifier: Apache-2.0

// weft session: one session out of a model's file, and into another.

#include "cli/json_line.hpp"
#include "cli/output.hpp"
#include "cli/run_state.hpp"
#include "cli/verb.hpp"

#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/session_file.hpp"

#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <cstdio>
#include <memory>

namespace weft::cli {
namespace {

struct SessionRequest {
  std::string model, file, out;
  std::size_t session = 0;
  std::uint64_t max_memory = 0;
  bool remove = false, other_weights = false, json = false;
};

Result<Loaded> load_one(const Model& model, std::uint64_t max_memory) {
  mesh::MeshOptions options;
  options.max_memory = max_memory;
  options.threads = 1;
  auto loaded = load(model, options);
  if (!loaded) return fail(blamed(std::move(loaded).error(), model.path));
  return loaded;
}

/// True when the run came to its end, so that no errors are in flight.
bool is_finished(const formats::EntityFile& file) {
  const Result<Json> extras = parse_json(mesh::extras_of(file), "extras");
  return extras && std::as_const(*extras)["run"]["finished"] == Json(true);
}

Status detach(const SessionRequest& request) {
  WEFT_TRY(const Model model, read_model(request.model));
  WEFT_CHECK(check_output({"--output", request.out}, inputs_of(model)));
  if (request.remove) WEFT_CHECK(check_output("--remove", request.model));
  WEFT_TRY(Loaded loaded, load_one(model, request.max_memory));
  mesh::Mesh& mesh = *loaded.mesh;
  const std::size_t training = loaded.learner ? learning::with_replayed_rows(loaded.learner->options()).learners : 0;
  const bool is_idle = !loaded.learner || loaded.learner->options().schedule == learning::Schedule::settle ||
                       (model.entity && is_finished(*model.entity));
  auto bytes = mesh::detach_session(mesh, request.session, is_idle ? 0 : training);
  if (!bytes) return fail(std::move(bytes).error().within(request.model));
  if (request.remove && request.session < training)
    return fail(Errc::unsupported, request.model + ": session " + std::to_string(request.session) + " is one of the " +
                                       std::to_string(training) +
                                       " that its learning rule trains; without --remove it can be copied");
  ByteSource rest;
  if (request.remove) {
    if (Status removed = mesh.remove_session(request.session); !removed)
      return fail(std::move(removed).error().within(request.model));
    WEFT_TRY(rest, encode(loaded, model, true, request.model));
  }
  // The session first: whatever happens in between, it is somewhere.
  storage::FileSystem& files = storage::real_file_system();
  WEFT_CHECK(storage::write_file_durably(files, request.out, *bytes));
  if (request.remove) WEFT_CHECK(storage::write_file_durably(files, request.model, rest));
  if (request.json)
    print_json({{"file", request.out},
                {"session", request.session},
                {"ticks", mesh.ticks()},
                {"file_bytes", bytes->size()},
                {"removed", request.remove},
                {"sessions", mesh.sessions()}});
  else
    std::printf("%s: session %zu of %s at tick %llu%s; %zu %s there\n", escaped(request.out).c_str(), request.session,
                escaped(request.model).c_str(), static_cast<unsigned long long>(mesh.ticks()),
                request.remove ? ", taken out" : "", mesh.sessions(), mesh.sessions() == 1 ? "is" : "are");
  return {};
}

Status attach(const SessionRequest& request) {
  WEFT_TRY(const Model model, read_model(request.model));
  std::vector<NamedFile> inputs = inputs_of(model);
  inputs.push_back({"FILE", request.file});
  WEFT_CHECK(check_output({"--output", request.out}, inputs));
  WEFT_TRY(const auto file, formats::load_entity(storage::real_file_system(), request.file));
  WEFT_TRY(Loaded loaded, load_one(model, request.max_memory));
  mesh::Mesh& mesh = *loaded.mesh;
  auto session = mesh::attach_session(mesh, file, request.other_weights);
  if (!session) return fail(std::move(session).error().within(request.file));
  // A model without live state has no session of its own to keep.
  if (!loaded.is_live) {
    WEFT_CHECK(mesh.remove_session(0));
    *session = 0;
  }
  WEFT_TRY(const auto bytes, encode(loaded, model, true, request.out));
  WEFT_CHECK(storage::write_file_durably(storage::real_file_system(), request.out, bytes));
  if (request.json)
    print_json({{"file", request.out},
                {"session", *session},
                {"sessions", mesh.sessions()},
                {"ticks", mesh.ticks()},
                {"file_bytes", bytes.size()}});
  else
    std::printf("%s: %s is session %zu of %zu, at tick %llu\n", escaped(request.out).c_str(),
                escaped(request.file).c_str(), *session, mesh.sessions(),
                static_cast<unsigned long long>(mesh.ticks()));
  return {};
}

CLI::App* add_part(CLI::App& verb, const std::string& name, const std::string& help, SessionRequest& request) {
  CLI::App* part = add_verb(verb, name, help);
  add_argument(*part, "MODEL", request.model, "An .entity file, or a network file: its session 0 is new").required();
  add_output(*part, request.out);
  add_max_memory(*part, request.max_memory);
  add_flag(*part, "json", request.json, "One JSON object on stdout");
  return part;
}

}  // namespace

Verb add_session(CLI::App& program) {
  CLI::App* app = add_verb(program, "session", "Move a session from one model's file to another's");
  require_part(*app);
  auto request = std::make_shared<SessionRequest>();
  CLI::App* out = add_part(*app, "detach", "Copy one session into a file of its own", *request);
  add_option(*out, "session", request->session, "Which one, from 0 on").required();
  add_flag(*out, "remove", request->remove, "Take it out of MODEL, which is written anew");
  CLI::App* in = add_part(*app, "attach", "Write MODEL anew with the session of a file beside its own", *request);
  add_argument(*in, "FILE", request->file, "A file that weft session detach wrote").required();
  add_flag(*in, "other-weights", request->other_weights, "Also when the session was run with other weights");
  return {app, [request, out] { return is_given(*out) ? detach(*request) : attach(*request); }};
}

}  // namespace weft::cli
