// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"
#include "cli/notify.hpp"
#include "cli/setup.hpp"
#include "cli/signals.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "cli/writing_flags.hpp"

#include "server/page.hpp"
#include "server/request_log.hpp"
#include "server/service.hpp"

#include "mesh/network/network_json.hpp"
#include "mesh/persistence/session_file.hpp"

#include "formats/entity/entity.hpp"
#include "formats/gguf/gguf_parts.hpp"
#include "storage/file_system.hpp"

#include "core/byte_size.hpp"
#include "core/json.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"

#include <sys/socket.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace weft::cli {
namespace {

struct ServeRequest {
  std::vector<std::string> files, listen, keys, origins, hosts;
  std::string state, model_directory, bridge_root, key_file, durability, max_body = "8MiB", max_upload = "4GiB", log,
                                                                         request_log;
  std::string prefix_cache, kv_memory, scheduling = "fcfs", draft, preset;
  models::DraftOptions drafts;
  std::string tokenizer, chat_template, any_model = "auto", numa = "off", device, io_priority = "high";
  std::optional<std::uint64_t> port;
  std::uint64_t queue = 64, threads = 0, io_threads = 1, slots = 4, context = 0;
  double drain_delay = 0, drain_timeout = 30;
  bool bridge = false, insecure = false, allow_weight_update = false, isolate_keys = false, overcommit = false,
       json = false;
};

bool is_loopback(const std::string& address) {
  return address.starts_with("unix:") || address.starts_with("127.") || address.starts_with("[::1]:") ||
         address.starts_with("localhost:");
}

bool is_unix_socket(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 && address.ss_family == AF_UNIX;
}

/// Sockets that the service manager opened for this process. @source sd_listen_fds(3), systemd 252
std::vector<int> inherited_sockets() {
  const auto number = [](std::string_view text) {
    int value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? value : -1;
  };
  std::vector<int> found;
  if (number(environment("LISTEN_PID")) != static_cast<int>(getpid())) return found;
  constexpr int kFirst = 3, kMost = 64;
  for (int i = 0; i < std::min(number(environment("LISTEN_FDS")), kMost); ++i) {
    fcntl(kFirst + i, F_SETFD, FD_CLOEXEC);
    found.push_back(kFirst + i);
  }
  return found;
}

constexpr std::uint64_t kServePort = 8080, kServeBridgePort = 9876;

/// Directory of planetbridging's fixtures, models and reports: the one given, else that of its own variable, else a
/// cache. Empty: its routes are not served.
std::string bridge_root_of(const ServeRequest& request) {
  if (!request.bridge && request.bridge_root.empty()) return {};
  if (!request.bridge_root.empty()) return request.bridge_root;
  if (const auto root = environment("PLANETBRIDGING_ROOT"); !root.empty()) return std::string(root);
  if (const auto cache = environment("XDG_CACHE_HOME"); !cache.empty()) return std::string(cache) + "/weft/bridge";
  return std::string(environment("HOME")) + "/.cache/weft/bridge";
}

/// A chat template that is built in, or that of a file.
Result<text::ChatTemplate> read_template(const std::string& name_or_file) {
  for (const std::string_view name : text::ChatTemplate::built_in_names())
    if (name == name_or_file) return text::ChatTemplate::built_in(name);
  constexpr std::size_t kMost = std::size_t{1} << 20;
  WEFT_TRY(const ByteBuffer bytes, storage::real_file_system().read(name_or_file, kMost));
  auto made = text::ChatTemplate::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!made) return fail(std::move(made).error().within(name_or_file));
  return made;
}

Result<server::Service::Options> options_of(const ServeRequest& request, bool is_public) {
  server::Service::Options options;
  options.access = {request.keys, request.key_file, request.origins, request.hosts, !is_public};
  options.meshes.state = request.state;
  options.meshes.serving.queue = request.queue;
  options.meshes.mesh.threads = request.threads;
  WEFT_CHECK(check_device(request.device));
  options.meshes.mesh.device = options.models.device = request.device;
  options.models.serving.queue = request.queue;
  options.models.serving.engine = {.slots = request.slots, .context = request.context};
  if (request.prefix_cache == "0") {
    options.models.serving.engine.prefix_cache = 0;
  } else if (!request.prefix_cache.empty()) {
    WEFT_TRY(options.models.serving.engine.prefix_cache, parse_byte_size(request.prefix_cache));
  }
  if (!request.kv_memory.empty()) {
    WEFT_TRY(options.models.serving.engine.state_memory, parse_byte_size(request.kv_memory));
  } else if (request.overcommit) {
    return fail(Errc::invalid_argument, "--overcommit: give --kv-memory, the memory that texts share");
  }
  options.models.serving.engine.overcommits = request.overcommit;
  options.models.serving.engine.drafts = request.drafts;
  options.models.serving.by_priority = request.scheduling == "priority";
  options.models.serving.isolates_keys = request.isolate_keys;
  if (!request.request_log.empty()) {
    WEFT_TRY(options.models.serving.log, server::RequestLog::open(request.request_log, WEFT_VERSION));
  }
  options.models.serving.preset = request.preset;
  options.models.draft = request.draft;
  options.models.tokenizer = request.tokenizer;
  options.models.threads = request.threads;
  if (!request.chat_template.empty()) {
    WEFT_TRY(options.models.chat_template, read_template(request.chat_template));
  }
  using Fallback = server::ModelTable::Fallback;
  if (request.any_model != "auto")
    options.models.fallback = request.any_model == "on" ? Fallback::always : Fallback::never;
  if (!request.durability.empty()) {
    WEFT_TRY(options.meshes.durability, agent::parse_durability(request.durability));
  }
  options.numa = *server::parse_numa_mode(request.numa);
  options.model_directory = request.model_directory;
  WEFT_TRY(options.max_body, parse_byte_size(request.max_body));
  WEFT_TRY(options.max_upload, parse_byte_size(request.max_upload));
  options.allows_weights = request.allow_weight_update;
  options.version = WEFT_VERSION;
  options.bridge_root = bridge_root_of(request);
  options.assets = server::page_asset;
  return options;
}

/// A file's name without its ending, and of a part of a GGUF file without its number.
std::string name_of_file(const std::filesystem::path& path) {
  const auto part = formats::gguf_part_name(path.string());
  return part ? std::filesystem::path(part->prefix).filename().string() : path.stem().string();
}

/// "NAME=FILE", or FILE, whose name without its ending is the mesh's; a folder's is its whole name.
std::pair<std::string, std::string> name_and_path(const std::string& given) {
  const std::size_t sign = given.find('=');
  if (sign != std::string::npos && server::is_plain_name(std::string_view(given).substr(0, sign)))
    return {given.substr(0, sign), given.substr(sign + 1)};
  std::error_code unknown;
  if (!std::filesystem::is_directory(given, unknown)) return {name_of_file(given), given};
  std::filesystem::path folder = std::filesystem::path(given).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return {folder.filename().string(), given};
}

/// Loads a network or an .entity file under its name, unless a data directory of that name was found.
Status load_mesh(server::MeshTable& meshes, const std::string& name, const std::string& path) {
  if (meshes.find(name)) {
    log_info("mesh '" + name + "': goes on from its data directory; " + path + " is not read");
    return {};
  }
  if (path.ends_with(".json")) {
    constexpr std::size_t kMost = std::size_t{64} << 20;
    WEFT_TRY(const ByteBuffer bytes, storage::real_file_system().read(path, kMost));
    WEFT_TRY(const auto spec, mesh::read_network({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path));
    WEFT_CHECK(meshes.create(name, spec, {}));
    return {};
  }
  auto file = formats::load_entity(storage::real_file_system(), path);
  if (!file) return fail(std::move(file).error().within(path));
  WEFT_CHECK(meshes.create(name, *file, {}));
  return {};
}

/// Loads what was given: a language model, or a mesh.
Status load(server::Service& service, const std::string& given) {
  const auto [name, path] = name_and_path(given);
  storage::FileSystem& files = storage::real_file_system();
  if (!path.ends_with(".json")) {
    WEFT_TRY(const bool is_model, server::ModelTable::is_model(files, path));
    if (is_model && service.meshes().find(name))
      return fail(Errc::duplicate_name, "model '" + name + "': a mesh of this name is served already");
    if (is_model) {
      WEFT_CHECK(service.models().load(files, name, path));
      return {};
    }
  }
  if (service.models().find(name))
    return fail(Errc::duplicate_name, "mesh '" + name + "': a model of this name is served already");
  return load_mesh(service.meshes(), name, path);
}

bool passed_over(const Error& why) {
  log_warn("--model-dir: passed over: " + why.text());
  return false;
}

/// True of a file or folder of the model directory that is served where no FILE is named: a network, an .entity file
/// that is no session alone, a language model.
Result<bool> is_served(const std::filesystem::path& path) {
  std::error_code unknown;
  const std::string name = path.filename().string();
  if (name.starts_with('.')) return false;
  if (std::filesystem::is_directory(path, unknown)) return std::filesystem::exists(path / "config.json", unknown);
  if (path.extension() == ".gguf") return true;
  storage::FileSystem& files = storage::real_file_system();
  if (path.extension() == ".entity") {
    WEFT_TRY(const auto file, formats::load_entity(files, path.string()));
    return !mesh::holds_session(file);
  }
  if (path.extension() != ".json") return false;
  constexpr std::size_t kMost = std::size_t{64} << 20;
  const auto bytes = files.read(path.string(), kMost);
  if (!bytes) return passed_over(bytes.error());
  const auto json = parse_json({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, path.string());
  if (!json) return passed_over(json.error());
  return json->is_object() && json->contains("weft");
}

/// Serves all that lies in the model directory, by name.
Status load_all(server::Service& service, const std::string& directory) {
  std::error_code failed;
  std::vector<std::filesystem::path> paths;
  for (const auto& each : std::filesystem::directory_iterator(directory, failed)) paths.push_back(each.path());
  if (failed) return fail(Errc::storage, "--model-dir " + directory + ": " + failed.message());
  std::sort(paths.begin(), paths.end());
  std::map<std::string, std::filesystem::path> names;
  for (const std::filesystem::path& path : paths) {
    // The first part of a GGUF file stands for all; where it is not there, another one tells.
    if (const auto part = formats::gguf_part_name(path.string()); part && part->number != 1)
      if (std::filesystem::exists(part->path(1), failed)) continue;
    WEFT_TRY(const bool is, is_served(path));
    if (!is) {
      log_info(path.string() + ": no network, .entity file or language model, so it is not served");
      continue;
    }
    const bool is_folder = std::filesystem::is_directory(path, failed);
    const std::string name = is_folder ? path.filename().string() : name_of_file(path);
    if (!server::is_plain_name(name)) {
      log_warn(path.string() + ": its name is not plain (letters, digits, '.', '_' and '-'), so it is not served");
      continue;
    }
    if (const auto [other, is_new] = names.emplace(name, path); !is_new)
      return fail(Errc::duplicate_name, "--model-dir: " + other->second.string() + " and " + path.string() +
                                            " would both be '" + name + "'; name the files to serve instead");
    WEFT_CHECK(load(service, name + "=" + path.string()));
  }
  return {};
}

void tell_ready(const ServeRequest& request, const server::Service& service, std::size_t meshes, std::size_t models) {
  if (request.json) {
    print_json({{"event", "ready"}, {"listen", service.addresses()}, {"meshes", meshes}, {"models", models}});
    return;
  }
  for (const std::string& each : service.addresses())
    std::printf("listening on %s%s\n", each.starts_with("unix:") ? "" : "http://", escaped(each).c_str());
  std::fflush(stdout);
}

/// Until a signal ends it.
Status wait_for_end(const ServeRequest& request, server::Service& service, server::RequestLog* log,
                    ServiceNotifier& notifier) {
  while (!noted_signal()) {
    notifier.alive();
    if (take_hangup()) {
      reopen_log_file();
      if (log) log->reopen();
      if (const Status read = service.access().reload(); !read) log_error(read.error().text());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  notifier.stopping("finishing requests");
  std::this_thread::sleep_for(std::chrono::duration<double>(request.drain_delay));
  WEFT_CHECK(service.stop(std::chrono::milliseconds(static_cast<std::int64_t>(request.drain_timeout * 1000))));
  return fail(Errc::interrupted, noted_signal() == SIGTERM ? "stopped by SIGTERM" : "stopped by SIGINT");
}

Status serve(const ServeRequest& request) {
  watch_signals();
  watch_hangups();
  if (!request.log.empty()) set_log_file(request.log);
  ServiceNotifier notifier = ServiceNotifier::from_environment();
  server::HttpServer::Options http;
  http.inherited = inherited_sockets();
  http.listen = request.listen;
  http.threads = request.io_threads;
  http.urgent = request.io_priority == "high";
  const std::uint64_t port = request.port.value_or(bridge_root_of(request).empty() ? kServePort : kServeBridgePort);
  if (http.listen.empty() && http.inherited.empty()) http.listen = {"127.0.0.1:" + std::to_string(port)};
  const bool is_public = !std::all_of(http.listen.begin(), http.listen.end(), is_loopback) ||
                         !std::all_of(http.inherited.begin(), http.inherited.end(), is_unix_socket);
  const bool has_keys = !request.keys.empty() || !request.key_file.empty();
  if (is_public && !has_keys && !request.insecure)
    return fail(
        Errc::invalid_argument,
        "--listen: an address that others reach needs --api-key-file, or --insecure if anybody may do anything");
  WEFT_TRY(auto options, options_of(request, is_public));
  const auto log = options.models.serving.log;
  WEFT_TRY(const auto service, server::Service::make(std::move(options)));
  WEFT_CHECK(service->listen(std::move(http)));
  WEFT_CHECK(service->meshes().resume_all());
  for (const std::string& each : request.files) WEFT_CHECK(load(*service, each));
  if (request.files.empty() && !request.model_directory.empty())
    WEFT_CHECK(load_all(*service, request.model_directory));
  service->ready();
  const std::size_t meshes = service->meshes().all().size(), models = service->models().all().size();
  notifier.ready("serving " + std::to_string(meshes) + " meshes, " + std::to_string(models) + " models");
  tell_ready(request, *service, meshes, models);
  return wait_for_end(request, *service, log.get(), notifier);
}

}  // namespace

Verb add_serve(CLI::App& program) {
  CLI::App* app = add_verb(program, "serve", "Serve meshes and language models over HTTP");
  auto request = std::make_shared<ServeRequest>();
  ServeRequest& r = *request;
  add_argument(*app, "[NAME=]FILE", r.files,
               "Networks, .entity files and language models to serve: folders and GGUF files too");
  add_option(*app, "port", r.port, "Port on 127.0.0.1: 8080, with --bridge 9876; 0: any free one")
      .within(std::uint64_t{0}, std::uint64_t{65535});
  add_option(*app, "listen", r.listen, "Where to listen instead, as often as wanted")
      .type_name("ADDRESS:PORT|unix:PATH")
      .one_a_flag()
      .take_all();
  add_option(*app, "state", r.state, "Keep each mesh in a data directory below this one").type_name("DIR");
  add_option(*app, "model-dir", r.model_directory,
             "Where files lie that clients may name; without a FILE all of it is served")
      .type_name("DIR");
  add_flag(*app, "bridge", r.bridge, "Serve the Python package planetbridging");
  add_option(*app, "bridge-root", r.bridge_root, "The same, with its fixtures, models and reports below this directory")
      .type_name("DIR");
  add_option(*app, "durability", r.durability, "When what was done counts as kept")
      .type_name("tick|interval=2s|checkpoint");
  add_option(*app, "api-key", r.keys, "A key that clients must show; other users see it in the process list")
      .one_a_flag()
      .take_all();
  add_option(*app, "api-key-file", r.key_file, "A file of keys, one a line; read again on SIGHUP").type_name("FILE");
  add_flag(*app, "insecure", r.insecure, "Listen on addresses that others reach without a key");
  add_option(*app, "cors-origin", r.origins, "Web pages of this origin may read answers").one_a_flag().take_all();
  add_option(*app, "host-name", r.hosts, "A name under which the server is reached").one_a_flag().take_all();
  add_flag(*app, "allow-weight-update", r.allow_weight_update, "Clients may replace weights");
  add_option(*app, "queue", r.queue, "Requests that may wait for one mesh or model")
      .within(std::uint64_t{1}, std::uint64_t{65536});
  add_option(*app, "slots", r.slots, "Texts that one language model writes at once")
      .within(std::uint64_t{1}, std::uint64_t{1024});
  add_option(*app, "context", r.context, "Tokens of each text, prompt included; 0: the model's, at most 4096")
      .within(std::uint64_t{0}, models::GenerateOptions::kMostTokens);
  add_option(*app, "prefix-cache", r.prefix_cache,
             "Memory for beginnings of texts that others begin with too, of each language model; 256MiB, 0: none")
      .type_name("SIZE");
  add_option(*app, "kv-memory", r.kv_memory,
             "Memory for keys and values of all slots of a language model together; whole contexts")
      .type_name("SIZE");
  add_flag(*app, "overcommit", r.overcommit,
           "With --kv-memory: texts begin before all that they can write has room, and may be computed again");
  add_flag(*app, "isolate-keys", r.isolate_keys, "Texts never go on from those that another key began");
  one_of(add_option(*app, "scheduling-policy", r.scheduling,
                    "Requests for texts get slots in their order, or by their priority: then texts give theirs away"),
         {"fcfs", "priority"});
  add_draft_flags(*app, r.draft, r.drafts);
  add_preset(*app, r.preset, "Values that requests for texts do not give, and the order; those of the route");
  add_option(*app, "tokenizer", r.tokenizer, "Where the tokenizer of language models is; the model's own");
  add_option(*app, "chat-template", r.chat_template,
             "How conversations are spelled, a file or a built-in name; the model's")
      .type_name("FILE|NAME");
  one_of(add_option(*app, "any-model", r.any_model,
                    "A language model answers for unknown names; auto: where it is the only one"),
         {"auto", "on", "off"});
  add_option(*app, "max-body", r.max_body, "Largest request that is no file").type_name("SIZE");
  add_option(*app, "max-upload", r.max_upload, "Largest file sent").type_name("SIZE");
  one_of(add_option(*app, "numa", r.numa,
                    "Replicas of language models, one a NUMA node; or each model and mesh on one node, in turn"),
         {"off", "distribute", "replicas"});
  add_option(*app, "threads", r.threads, "Threads of one mesh, and of a language model's engine; 0: all cores");
  add_device(*app, r.device);
  add_option(*app, "io-threads", r.io_threads, "Threads for connections").within(std::uint64_t{1}, std::uint64_t{64});
  one_of(add_option(*app, "io-priority", r.io_priority,
                    "high: connections are served before what computes, by real-time priority where that is allowed"),
         {"high", "normal"});
  add_option(*app, "drain-delay", r.drain_delay, "Seconds between SIGTERM and taking no more work").within(0.0, 3600.0);
  add_option(*app, "drain-timeout", r.drain_timeout, "Seconds for requests to end after it").within(0.0, 3600.0);
  add_option(*app, "log", r.log, "Append the log to this file; opened anew on SIGHUP").type_name("FILE");
  add_option(*app, "request-log", r.request_log,
             "Append each text that a language model wrote, with its request, for weft replay; opened anew on SIGHUP")
      .type_name("FILE");
  add_flag(*app, "json", r.json, "One JSON object on stdout when ready");
  return {app, [request] { return serve(*request); }};
}

}  // namespace weft::cli
